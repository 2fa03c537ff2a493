"""The exceptions that labeltree raises for what a user can mend."""


class InputError(ValueError):
    """What was given cannot be used.

    The message is one sentence that says what was got, what was expected, where, and what to do.
    The command line prints it and exits with code 2; it never shows a traceback for it.
    """


class NoTermError(InputError):
    """Texts hold no term to learn from."""


class RoomError(InputError):
    """Memory or disk cannot hold what was asked for."""
