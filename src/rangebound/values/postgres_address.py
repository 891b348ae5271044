"""The address of a PostgreSQL database: a URL or a service, and never a password."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from rangebound.errors import ArgumentError

NO_PASSWORD = (
    "must hold no password, since addresses are published and logged; put it into PGPASSFILE (~/.pgpass), PGPASSWORD "
    'or a service (pg_service.conf), named as "service=clinic"'
)
"""The rule for addresses, and the way out."""
_FORM = 'must be such as "postgresql://user@host/database", or "service=clinic"'


def is_address(text: object) -> bool:
    """Whether a text names a database rather than a file.

    >>> is_address("postgresql://db.example/clinic"), is_address("service=clinic"), is_address("clinic.ledger")
    (True, True, False)
    """
    return isinstance(text, str) and text.startswith(("postgresql://", "postgres://", "service="))


def address_fault(address: str) -> str:
    """What is wrong with an address, without any part of it; an empty text where it will do.

    >>> address_fault("postgresql://ann@db.example/clinic"), address_fault("service=clinic")
    ('', '')
    >>> address_fault("postgresql://ann:secret@db.example/clinic").partition(",")[0]
    'must hold no password'
    """
    plain = unquote(address)
    if "password" in plain.lower():
        return NO_PASSWORD
    if plain.startswith("service=") and not set(plain[8:]) & set(" '\\=\n\t") and len(plain) > 8:
        return ""
    try:
        parts = urlsplit(address)
        if parts.scheme not in ("postgresql", "postgres") or not address.startswith(f"{parts.scheme}://"):
            return _FORM
        return NO_PASSWORD if parts.password is not None or ":" in unquote(parts.username or "") else ""
    except ValueError:
        return _FORM


def checked_address(address: object) -> str:
    """An address without a password; another is refused, and not shown."""
    fault = address_fault(address) if isinstance(address, str) else _FORM
    if fault or not isinstance(address, str):
        raise ArgumentError(f"postgres: {fault}")
    return address
