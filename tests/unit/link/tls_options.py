"""Options of nodes with certificates."""

from pathlib import Path


def shown(folder: Path, name: str) -> dict[str, str]:
    """The options of a node that shows a certificate."""
    return {"tls_cert": str(folder / f"{name}.pem"), "tls_key": str(folder / f"{name}.key")}


def trusting(folder: Path) -> dict[str, str]:
    """The options of a node that trusts an authority."""
    return {"tls_ca": str(folder / "ca.pem")}
