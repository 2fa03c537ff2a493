"""`labeltree push`: a model is published for others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from labeltree.base.system import human_bytes
from labeltree.cli import options, printing
from labeltree.cli.reading import open_model


@dataclass(frozen=True)
class About:
    """What the card adds to the contents of the model.

    Card
    ----
    title : TEXT
        Title. Default: the name of the model.
    language : CODE
        Language of the documents, such as en; repeat it for several.
    license : NAME
        License of the model, such as cc-by-4.0.
    test : DATA
        Labeled data to evaluate the model on.
    """

    title: str | None = None
    language: list[str] | None = None
    license: str | None = None
    test: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether there is any of it."""
        return any(value for value in vars(self).values())

    def card(self, display: printing.Display, path: Path, address: str | None = None) -> str:
        """Return the card of a model, which is evaluated first if there is test data."""
        from labeltree.base.files import display_name
        from labeltree.hub.card import model_card

        opened, metrics, data = open_model(display, path), None, None
        if self.test is not None:
            with display.stage("evaluate", f"evaluating {path}"):
                metrics = opened.evaluate(self.test)
            name = display_name(self.test).rpartition("/")[2]
            data = f"{name} ({metrics.rows:,} rows)"
        return model_card(
            opened,
            title=self.title,
            languages=self.language or (),
            license=self.license,
            address=address,
            metrics=metrics,
            data=data,
        )


def push(
    model: options.ModelPath,
    address: str,
    *,
    about: About,
    card: bool = True,
    private: bool = False,
    dry_run: bool = False,
    overwrite: bool = False,
    display: printing.Display,
) -> None:
    """Publish a model.

    All files are verified first. Anyone who can read ADDRESS can use it in place of a model directory, in
    every command and in labeltree.load. Files at ADDRESS that do not belong to a model are kept. The card is
    MODEL/README.md, if it exists and no option of the card is given; otherwise it is generated.

    Parameters
    ----------
    address
        Where to publish it: hf://user/name, s3://bucket/name, gs://bucket/name, file:///directory or any
        other address of fsspec.
    card
        Publish a card, README.md, unless there is one.
    private
        Create a private repository on the Hugging Face Hub.
    dry_run
        Print the card and publish nothing.
    """
    from labeltree.errors import InputError
    from labeltree.hub.address import Address
    from labeltree.hub.push import push as publish

    if about.is_given and not card:
        raise InputError("--no-card is given with options of the card", hint="remove one of them")
    shown = Address(address).shown
    if dry_run:
        written = model / "README.md"
        is_own = written.is_file() and not about.is_given
        content = None if not card else written.read_text() if is_own else about.card(display, model, shown)
        if display.json:
            printing.print_json({"model": str(model), "address": shown, "card": content})
        elif content is not None:
            print(content, end="")
        return
    text = (lambda: about.card(display, model, shown)) if about.is_given else card
    done = publish(model, address, overwrite=overwrite, private=private, card=text, stage=display.stage)
    cards = {"written": "README.md, written", "kept": "README.md, kept as it was", None: "none"}
    pairs = [
        ("published", f"{printing.plural(done['files'], 'file')}, {human_bytes(done['bytes'])}"),
        ("address", done["address"]),
        *([("commit", done["commit"])] if done["commit"] else []),
        ("card", cards[done["card"]]),
    ]
    report = {"model": str(model), **done}
    display.show(report, printing.facts(pairs))
