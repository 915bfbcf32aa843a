"""D17: what the connection needs beside the network: seeds, a store, certificates."""

import datetime
from pathlib import Path

from shoal.config import ConnectionConfig
from shoal.config.target import HOSTS
from shoal.doctor.domain import Heard
from shoal.doctor.machine import Machine
from shoal.doctor.report import Finding

#: A certificate that ends so soon is to be renewed now.
_RENEW_BEFORE = datetime.timedelta(days=30)
_CONNECT_S = 0.5


def services(machine: Machine, config: ConnectionConfig, heard: Heard, now: datetime.datetime) -> Finding:
    """D17: do the seeds answer, is a store there, and how long are certificates valid?"""
    for target in config.seed_targets():
        if target.scheme not in HOSTS:
            continue
        problem = machine.connects(target.host, target.port, _CONNECT_S)
        if problem is not None:
            text = f"the seed {target.url} does not answer: {problem}"
            return Finding("D17", "FAIL", text, "start the daemon there, or correct `seeds` (SHOAL_SEEDS)")
    if config.tls_cert is not None:
        finding = _certificate(config.tls_cert, now)
        if finding is not None:
            return finding
    if heard.stores:
        return Finding("D17", "ok", f"heard the store {', '.join(heard.stores)}")
    return Finding("D17", "ok", "no store was heard; only persistent messages and queues need one")


def _certificate(path: str, now: datetime.datetime) -> Finding | None:
    """What is wrong with a certificate; `None` if nothing is."""
    try:
        from cryptography import x509
    except ImportError:
        return Finding("D17", "skip", "reading certificates needs pip install 'shoal[ca]'")
    try:
        ends = x509.load_pem_x509_certificate(Path(path).read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:
        return Finding("D17", "FAIL", f"the certificate {path} cannot be read: {error}", "correct `tls_cert`")
    if ends <= now:
        return Finding("D17", "FAIL", f"the certificate {path} ended on {ends:%Y-%m-%d}", "renew it")
    if ends - now < _RENEW_BEFORE:
        return Finding("D17", "warn", f"the certificate {path} ends on {ends:%Y-%m-%d}", "renew it")
    return None
