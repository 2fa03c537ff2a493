"""The exceptions that labeltree raises for errors that the user can fix."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

# The name of a parameter in a hint.
_PARAMETER = re.compile(r"\{([a-z_0-9]+)\}")


class InputError(ValueError):
    """The input cannot be used.

    Its message is ``file:line: what; hint``, without the parts that are not given: where the error is, what
    is wrong, and what to do about it. The command line prints it and exits with code 2.

    Parameters
    ----------
    what : str
        What is wrong, in one short sentence that starts with a lowercase letter and has no period at the end.
    file : str or path-like, optional
        The file or directory it is about.
    line : int, optional
        The line of that file, counted from 1.
    hint : str, optional
        What to do, as an imperative that starts with a lowercase letter and has no period at the end. It
        names parameters in braces, as in "use {overwrite} to replace it".
    parameters : mapping of str to object, optional
        The values that the hint recommends for the parameters it names, if any. The message shows them as in
        Python (``overwrite=True``), the command line as options (``--overwrite``).
    """

    def __init__(
        self,
        what: str,
        *,
        file: str | os.PathLike[str] | None = None,
        line: int | None = None,
        hint: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self.what = what
        self.file = None if file is None else os.fspath(file)
        self.line = line
        self.hint = hint
        self.parameters = {**dict.fromkeys(_PARAMETER.findall(hint or "")), **(parameters or {})}
        super().__init__(self.message(_as_argument))

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), **vars(self)), ()

    def message(self, spell: Callable[[str, Any], str]) -> str:
        """Return the message, with the parameters of the hint as ``spell(name, value)`` writes them."""
        where = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        hint = _PARAMETER.sub(lambda name: spell(name[1], self.parameters[name[1]]), self.hint or "")
        return "".join([f"{where}: " if where else "", self.what, f"; {hint}" if hint else ""])

    def replace(self, **fields: Any) -> InputError:
        """Return a copy of the error with other fields.

        Parameters
        ----------
        **fields
            ``what``, ``file``, ``line``, ``hint`` or ``parameters``.

        Returns
        -------
        InputError
            Of the same class.
        """
        return type(self)(**{**vars(self), **fields})


class NoTermError(InputError):
    """The documents have no term to learn from."""


class ResourceError(InputError):
    """There is not enough memory or disk space."""


def alternatives(names: Sequence[str]) -> str:
    """Join names for a hint.

    Examples
    --------
    >>> alternatives(["a", "b", "c"])
    'a, b or c'
    """
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _as_argument(name: str, value: Any) -> str:
    return name if value is None else f"{name}={value!r}"
