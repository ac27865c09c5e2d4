"""Money: decimals that come from text and are never rounded."""

from __future__ import annotations

from contextlib import suppress
from decimal import Context, Decimal

EXACT = Context(prec=1000)
"""Arithmetic without rounding: amounts have at most 100 digits on either side of the point (`read_amount`)."""

_MAX_EXPONENT = 100


def read_amount(value: object) -> Decimal | None:
    """An amount of money as text, a Decimal or a number, or None where it is none.

    A float is read as it is written (0.1 is one tenth): it came out of somebody's JSON, where it was text.

    Args:
        value: Anything.

    Returns:
        A finite amount of 0 or more; None for everything else, also for booleans and absurd exponents.
    """
    with suppress(Exception):
        if isinstance(value, str | int | float | Decimal) and not isinstance(value, bool):
            amount = Decimal(str(value) if isinstance(value, float) else value)
            small = len(amount.as_tuple().digits) <= _MAX_EXPONENT and abs(amount.adjusted()) <= _MAX_EXPONENT
            if amount.is_finite() and amount >= 0 and small:
                return amount
    return None


def amount_text(amount: Decimal) -> str:
    """An amount as text without an exponent and without zeros at its end; `read_amount` gives it back."""
    text = f"{amount:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def add_amounts(*amounts: Decimal | None) -> Decimal | None:
    """The sum of those that are known; None where none is."""
    known = [amount for amount in amounts if amount is not None]
    total = Decimal(0)
    for amount in known:
        total = EXACT.add(total, amount)
    return total if known else None
