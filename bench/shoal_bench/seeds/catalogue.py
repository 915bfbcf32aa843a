"""Every experiment by its name."""

import os
import shutil
from typing import Any

from shoal_bench import fec as coding
from shoal_bench.availability import ARTEMIS, JAVAC, Need, Needs
from shoal_bench.seeds import aging, announced, fiorano, ibus, narada, presumo, published, rig, thesis
from shoal_bench.seeds.frame import Experiment

ROOT = Need(lambda: os.geteuid() == 0 and shutil.which("ip") is not None, "run it as root, with iproute2")
COMPILER = Need(lambda: shutil.which("cc") is not None, "install a C compiler")
ZFEC = Need(coding.has_zfec, "pip install zfec")
_ARTEMIS = (ARTEMIS, JAVAC)
_BESIDE_ARTEMIS: Needs = {"artemis": _ARTEMIS}


def _fiorano(name: str, section: str, cells: Any, found: str, rounds: int = 1) -> Experiment[Any]:
    return Experiment(
        name=name,
        source=f"FioranoMQ {section}",
        found=found,
        cells=cells,
        measure=rig.measure,
        contestants=("routed", "multicast"),
        peers=_BESIDE_ARTEMIS,
        headline="overall_msg_s",
        published=published.overall_msg_s,
        remote=("routed",),
        # The joint grid makes a model of the peer, too.
        peers_at_ends=rounds == 1,
        rounds=rounds,
    )


_LISTED: tuple[Experiment[Any], ...] = (
    Experiment(
        name="udp-loop",
        source="FJM2 thesis 5.2",
        found="grows with size; C and Java alike",
        cells=thesis.udp_loop,
        measure=thesis.measure_udp,
        contestants=("shoal", "python"),
        peers={"native": (COMPILER,)},
        headline="goodput_mbit_s",
    ),
    Experiment(
        name="udp-lan",
        source="FJM2 thesis 5.3",
        found="at most about 90 Mbit/s",
        cells=thesis.udp_lan,
        measure=thesis.measure_udp,
        contestants=("shoal", "python"),
        peers={"native": (COMPILER,)},
        headline="goodput_mbit_s",
        published=thesis.udp_lan_published,
        needs=(ROOT,),
    ),
    Experiment(
        name="jms-loop",
        source="FJM2 thesis 5.4",
        found="SonicMQ 257, Fiorano 202, FJM2 170 Mbit/s",
        cells=thesis.jms_loop,
        measure=thesis.measure_jms,
        peers={"artemis": _ARTEMIS},
        headline="goodput_mbit_s",
        published=thesis.jms_loop_published,
    ),
    Experiment(
        name="jms-lan",
        source="FJM2 thesis 5.5.1-2",
        found="multicast wins from two subscribers on; iBus crashes from 4 KB on",
        cells=thesis.jms_lan,
        measure=thesis.measure_jms,
        peers={"artemis-near": _ARTEMIS, "artemis-third": _ARTEMIS},
        headline="goodput_mbit_s",
        needs=(ROOT,),
    ),
    Experiment(
        name="wan",
        source="FJM2 thesis 5.5.3",
        found="very poor: it had no flow control",
        cells=thesis.wan,
        measure=thesis.measure_wan,
        contestants=("norm", "tcp_cubic"),
        headline="goodput_mbit_s",
        needs=(ROOT,),
    ),
    Experiment(
        name="fec",
        source="FJM2 thesis 4.2",
        found="64 KB in symbols of 1440 B: 7 ms, 75 Mbit/s",
        cells=thesis.fec,
        measure=thesis.measure_fec,
        peers={"zfec": (ZFEC,)},
        headline="encode_ms",
        lower_is_better=True,
        published=thesis.fec_published,
    ),
    Experiment(
        name="narada",
        source="Narada 5",
        found="close to SonicMQ, with less deviation; no figure survives",
        cells=narada.narada,
        measure=narada.measure,
        contestants=("routed",),
        peers=_BESIDE_ARTEMIS,
        headline="mean_delay_ms",
        lower_is_better=True,
    ),
    _fiorano("fiorano-publishers", "4.1", fiorano.publishers, "four publishers fill the server"),
    _fiorano("fiorano-subscribers", "4.2", fiorano.subscribers, "falls slightly up to 320"),
    _fiorano("fiorano-size", "4.3", fiorano.sizes, "61,000 messages/s; 600 Mbit/s"),
    _fiorano("fiorano-activation", "4.4", fiorano.activation, "property filters halve it"),
    _fiorano("fiorano-topics", "4.5", fiorano.topics, "35,000 messages/s with 20 topics"),
    _fiorano("fiorano-select", "4.6", fiorano.select, "property filters: half of correlation ids"),
    _fiorano("fiorano-or", "4.7", fiorano.any_of, "OR-filters double it from 40 on"),
    _fiorano("fiorano-and", "4.8", fiorano.all_of, "the deciding property belongs first"),
    _fiorano("fiorano-joint", "4.9", fiorano.joint, "n = 160, r = 1: 1,742 messages/s", rounds=3),
    Experiment(
        name="fiorano-aging",
        source="FioranoMQ 4.10",
        found="30 % less after four weeks",
        cells=aging.aging,
        measure=aging.measure,
        contestants=("routed",),
        headline="overall_msg_s",
    ),
    Experiment(
        name="fiorano-waiting",
        source="FioranoMQ 5",
        found="announced only",
        cells=announced.waiting,
        measure=announced.measure_waiting,
        contestants=("routed",),
        headline="mean_wait_us",
        lower_is_better=True,
    ),
    Experiment(
        name="fiorano-cluster",
        source="FioranoMQ 5",
        found="announced only",
        cells=announced.cluster,
        measure=announced.measure_cluster,
        contestants=("routed",),
        headline="overall_msg_s",
    ),
    Experiment(
        name="presumo-filters",
        source="Presumo",
        found="10,000 evaluations/s",
        cells=presumo.filters,
        measure=rig.measure,
        contestants=("routed", "multicast"),
        headline="overall_msg_s",
    ),
    Experiment(
        name="ibus-tune",
        source="iBus tuning guide",
        found="0.78 % requests; 254 ms for an epoch's acknowledgement",
        cells=ibus.tune,
        measure=ibus.measure,
        headline="epoch_ack_ms",
        lower_is_better=True,
        published=ibus.published,
    ),
)
EXPERIMENTS = {experiment.name: experiment for experiment in _LISTED}


def chosen(name: str) -> list[Experiment[Any]]:
    """The experiment of this name, or all of them."""
    if name == "all":
        return list(_LISTED)
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}. There are: all, {', '.join(EXPERIMENTS)}")
    return [EXPERIMENTS[name]]
