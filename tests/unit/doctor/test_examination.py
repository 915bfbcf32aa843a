"""Each fault of a machine gives the id of its own check; a machine without a fault gives none."""

import errno
import json
from dataclasses import replace
from typing import Any

import pytest
from machines import ETH0, IGMP, LO, SNMP, Lab, eth0

from shoal.config import parse_url
from shoal.doctor import Options, Report, examine
from shoal.doctor.domain import Heard
from shoal.doctor.machine import Echo

IDS = [f"D{number:02}" for number in range(1, 18)]
KEY = "192.0.2.9:7474 has another key (a1b2c3) than this node (d4e5f6): neither hears the other"
VERSION = "the sender speaks version 9 of the format, this program version 1"


def report(machine: Lab, url: str = "norm://", heard: Heard | None = None, **options: Any) -> Report:
    return examine(parse_url(url), Options(**options), machine, lambda *_: heard or Heard(members=2))


def problems(machine: Lab, url: str = "norm://", heard: Heard | None = None, **options: Any) -> list[str]:
    return [f"{each.verdict} {each.id}" for each in report(machine, url, heard, **options).problems]


def test_a_healthy_machine_has_no_problem_and_every_check_has_a_line() -> None:
    found = report(Lab(), querier_s=1)
    assert [finding.id for finding in found.findings] == IDS
    assert not found.problems
    assert not found.failed
    *lines, verdict = found.lines()
    assert lines[0] == "ok   D01 eth0 is up, 10.0.0.1, multicast"
    assert verdict == "No problem found (15 checks, 2 skipped)."


def with_file(path: str, text: str) -> Lab:
    """A machine that differs in one file."""
    return Lab(files={**Lab().files, path: text})


OLD_IGMP, OTHER_GROUP = IGMP.replace("2      V3", "2      V1"), IGMP.replace("FA4AC0EF", "FA4AC0EE")
ETH1 = replace(ETH0, name="eth1", address="10.1.0.1")
FAULTS: dict[str, tuple[str, Lab]] = {
    "no interface": ("FAIL D01", Lab(all_interfaces=(LO,), route=None)),
    "switched off": ("FAIL D01", Lab(all_interfaces=eth0(up=False))),
    "no carrier": ("FAIL D01", Lab(all_interfaces=eth0(running=False))),
    "two networks": ("warn D02", Lab(all_interfaces=(*eth0(), ETH1))),
    "no route": ("warn D03", Lab(route=None)),
    "another route": ("warn D03", Lab(route="10.9.0.1")),
    "loopback off": ("FAIL D04", Lab(all_interfaces=(replace(LO, up=False), ETH0))),
    "loopback is filtered": ("FAIL D04", Lab(echoes={"lo": Echo(False)})),
    "port taken": ("FAIL D05", Lab(taken="Address already in use")),
    "not joined": ("FAIL D06", with_file("/proc/net/igmp", OTHER_GROUP)),
    "cannot join": ("FAIL D06", Lab(join_error=OSError(errno.ENOBUFS, "No buffer space available"))),
    "IGMPv1": ("warn D06", with_file("/proc/net/igmp", OLD_IGMP)),
    "no querier": ("warn D07", Lab(query=False)),
    "small buffers": ("warn D08", Lab(receive_bytes=212_992)),
    "drops": ("warn D08", with_file("/proc/net/snmp", SNMP.format(drops=5000))),
    "no GSO": ("warn D09", Lab(gso=(False, True))),
    "overloaded": ("warn D14", Lab(late_s=0.4)),
    "cloud": ("warn D15", with_file("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n")),
    "Wi-Fi": ("warn D15", with_file("/sys/class/net/eth0/wireless", "")),
    "few memberships": ("warn D16", with_file("/proc/sys/net/ipv4/igmp_max_memberships", "4\n")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_gives_its_own_id_alone_with_advice(fault: str) -> None:
    expected, machine = FAULTS[fault]
    assert problems(machine, querier_s=1) == [expected]
    assert all(each.advice for each in report(machine, querier_s=1).problems)


def test_an_interface_that_is_not_there_is_named_with_those_that_are() -> None:
    found = report(Lab(), "norm://?interface=wlan7")
    assert problems(Lab(), "norm://?interface=wlan7") == ["FAIL D01"]
    assert "wlan7; this machine has lo, eth0" in found.findings[0].text


@pytest.mark.parametrize("url", ["norm://?interface=eth1", "norm://?interface=10.1.0.1"])
def test_an_interface_by_name_or_address_is_no_question(url: str) -> None:
    machine = Lab(all_interfaces=(*eth0(), replace(ETH0, name="eth1", address="10.1.0.1")), route="10.1.0.1")
    machine.files["/proc/net/igmp"] = IGMP.replace("eth0", "eth1")
    assert problems(machine, url) == []


def test_without_an_interface_what_depends_on_one_is_skipped() -> None:
    found = {finding.id: finding.verdict for finding in report(Lab(all_interfaces=(LO,))).findings}
    skipped = {"D02", "D03", "D05", "D06", "D07", "D10", "D11", "D12", "D13", "D15"}
    assert {name for name, verdict in found.items() if verdict == "skip"} == skipped


@pytest.mark.parametrize(
    ("echo", "words"),
    [
        (Echo(False), "does not enter"),
        (Echo(False, "Operation not permitted", True), "the firewall forbids"),
        (Echo(False, "Network is unreachable"), "cannot leave"),
    ],
)
def test_a_firewall_is_told_from_the_probe(echo: Echo, words: str) -> None:
    found = report(Lab(echoes={"eth0": echo}))
    (finding,) = (each for each in found.problems if each.id == "D11")
    assert (finding.verdict, words in finding.text) == ("FAIL", True)
    assert "allow UDP port 7474 in" in finding.advice


@pytest.mark.parametrize(
    ("heard", "expected"),
    [
        (Heard(unreadable=(KEY,)), "FAIL D05"),
        (Heard(unreadable=(VERSION,)), "FAIL D05"),
        (Heard(unreadable=("not a frame",)), "warn D05"),
        (Heard(error="joining: no buffer space"), "FAIL D05"),
    ],
)
def test_what_is_heard_of_the_domain(heard: Heard, expected: str) -> None:
    assert problems(Lab(), heard=heard) == [expected]
    # The reason itself is shown.
    told = heard.error or heard.unreadable[0]
    assert told in report(Lab(), heard=heard).problems[0].text


def test_without_the_right_to_listen_for_queries_that_is_said() -> None:
    verdicts = {each.id: each.verdict for each in report(Lab(query=None), querier_s=1).findings}
    assert verdicts["D07"] == "skip"
    old = Lab(query=None)
    old.files["/proc/net/igmp"] = IGMP.replace("2      V3", "2      V2")
    assert {each.id: each.verdict for each in report(old, querier_s=1).findings}["D07"] == "ok"


def test_a_segment_longer_than_a_packet_is_told_and_a_full_packet_is_tried() -> None:
    assert problems(Lab(), "norm://?segment_bytes=1400") == ["warn D10"]
    assert problems(Lab(), "norm://?segment_bytes=1300") == []
    machine = Lab()
    report(machine)
    assert max(machine.sizes) == 1500 - 28


def test_a_container_counts_if_its_network_is_its_own() -> None:
    machine = Lab()
    machine.files["/.dockerenv"] = ""
    assert problems(machine) == []
    machine.files |= {"/sys/class/net/eth0/ifindex": "4\n", "/sys/class/net/eth0/iflink": "9\n"}
    assert problems(machine) == ["warn D15"]


def test_a_hyper_v_machine_in_an_office_is_no_cloud() -> None:
    machine = Lab()
    machine.files["/sys/class/dmi/id/sys_vendor"] = "Microsoft Corporation\n"
    machine.files["/sys/class/dmi/id/product_name"] = "Surface Pro\n"
    assert problems(machine) == []
    machine.files["/sys/class/dmi/id/product_name"] = "Virtual Machine\n"
    assert problems(machine) == ["warn D15"]


def test_a_seed_that_does_not_answer() -> None:
    url = "norm://?when_no_multicast=tcp&seeds=gateway:7474"
    assert problems(Lab(), url) == []
    assert problems(Lab(refused="Connection refused"), url) == ["FAIL D17"]


def test_a_store_that_was_heard_is_named() -> None:
    found = report(Lab(), heard=Heard(members=1, stores=("main",)))
    assert found.findings[-1].text == "heard the store main"


def test_a_group_of_ipv6_skips_what_is_about_ipv4() -> None:
    found = report(Lab(), "norm://[ff15::4a01]:7474")
    assert not found.problems
    assert {each.id for each in found.findings if each.verdict == "skip"} >= {"D03", "D06", "D11"}


def test_as_json_the_report_has_every_check_and_the_problems() -> None:
    told = json.loads(report(Lab(route=None)).as_json())
    assert told["problems"] == ["D03"]
    assert told["failed"] is False
    assert [check["id"] for check in told["checks"]] == IDS
    assert set(told["checks"][0]) == {"id", "verdict", "text", "advice"}


def test_the_verdict_counts_failures_and_warnings() -> None:
    found = report(Lab(route=None, taken="Address already in use", gso=(False, False)))
    assert found.verdict == "1 failure (D05) and 2 warnings (D03, D09) (13 checks, 4 skipped)."
    assert found.failed
