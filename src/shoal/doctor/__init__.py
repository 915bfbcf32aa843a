"""`shoal doctor`: what keeps multicast from working on this machine, in this network, in this domain.

A check is a function that takes what it needs to know and returns one `Finding`. A check sees the system
through a `Machine`, so that a test can give it a faulty one. Nothing here needs root, and nothing changes the
system. Probes go to a group of the doctor's own, on the domain's port: no member hears them.
"""

from shoal.doctor.answerer import Answerer
from shoal.doctor.examination import Options, examine
from shoal.doctor.machine import Machine
from shoal.doctor.report import Finding, Report

__all__ = ["Answerer", "Finding", "Machine", "Options", "Report", "examine"]
