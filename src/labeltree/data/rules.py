"""What the documents of a file must have: columns, text and labels."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass

from labeltree.data.formats import Columns, Record
from labeltree.errors import InputError


class ColumnField(str):
    """A field of `Columns` that a hint names, as in ``columns=Columns(id="...")``."""

    def __repr__(self) -> str:
        return f'Columns({self}="...")'


TEXT, LABELS, ID, SEPARATORS = map(ColumnField, ("text", "labels", "id", "separators"))
KINDS = {TEXT: "text", LABELS: "label", ID: "ID"}


@dataclass(frozen=True)
class Rules:
    """What a document must have."""

    name: str
    columns: Columns
    require_labels: bool
    strict: bool

    def wanted(self) -> list[tuple[str, ColumnField]]:
        """Return the columns that must exist, and the fields that name them."""
        texts = [(key, TEXT) for key in self.columns.texts]
        return [*texts, (self.columns.labels, LABELS)] if self.require_labels else texts

    def check(self, record: Record, line: int) -> Record:
        """Return a document; refuse one without text or labels if nothing may be missing."""
        if self.strict:
            no_text = not (record.text and record.text.strip())
            if no_text or (self.require_labels and not record.labels):
                raise InputError(
                    f"the document has no {'text' if no_text else 'labels'}",
                    file=self.name,
                    line=line,
                    hint="correct it, or remove {strict}",
                    parameters={"strict": None},
                )
        return record


def some_names(names: list[str]) -> str:
    """Return names for a message, not too many and not too long."""
    return ", ".join(map(reprlib.repr, names[:20]))
