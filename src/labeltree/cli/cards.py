"""What a command needs to know about a model for its card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeltree.cli.prediction import Search, note_missed, open_model, predict_file
from labeltree.cli.text_options import Reading
from labeltree.settings import DEFAULT_RANKS

if TYPE_CHECKING:
    from pathlib import Path

    from labeltree.cli.progress import Stages

_CARD = "Card"
_option: Any = typer.Option


@dataclass(frozen=True)
class About:
    """What the model itself does not contain."""

    title: Annotated[
        str | None,
        _option(metavar="TEXT", rich_help_panel=_CARD, help="Title. Default: the name of the model."),
    ] = None
    language: Annotated[
        list[str] | None,
        _option(
            metavar="CODE",
            rich_help_panel=_CARD,
            help="Language of the documents, such as en; repeat it for several.",
        ),
    ] = None
    license: Annotated[
        str | None,
        _option(metavar="NAME", rich_help_panel=_CARD, help="License of the model, such as cc-by-4.0."),
    ] = None
    test: Annotated[
        str | None,
        _option(
            metavar="DATA",
            rich_help_panel=_CARD,
            help="Evaluate the model on this labeled data. Default: what labeltree frontier or evaluate "
            "wrote into the model directory.",
        ),
    ] = None

    @property
    def is_given(self) -> bool:
        """Whether there is any of it."""
        return any(value for value in vars(self).values())

    def card(self, stages: Stages, path: Path, address: str | None = None) -> str:
        """Return the card of a model, which is evaluated first if there is test data."""
        from labeltree.base.files import display_name
        from labeltree.hub.card import check_codes, model_card
        from labeltree.model.labeled import Labeled

        languages = self.language or ()
        check_codes(languages, self.license)
        about: dict[str, Any] = {
            "title": self.title,
            "languages": languages,
            "license": self.license,
            "address": address,
        }
        if self.test is None:
            return model_card(open_model(stages, path), **about)
        found = predict_file(stages, path, self.test, Reading(), None, Search(), top=5, threads=None)
        labeled = Labeled.of(found.dataset, found.model)
        note_missed(labeled)
        name = display_name(self.test).rpartition("/")[2]
        metrics = labeled.metrics(found.labels, DEFAULT_RANKS)
        data = f"{name} ({found.speed['rows']:,} rows)"
        return model_card(found.model, **about, metrics=metrics, data=data)
