"""The unit by which systemd runs daemons, one for each file in /etc/shoal."""

import shutil
import sys
from pathlib import Path

#: `%i` is what stands behind the @: the file's name.
_TEMPLATE = """\
# /etc/systemd/system/shoald@.service, made by `shoal daemon unit`.
# shoald@NAME runs the daemon of /etc/shoal/NAME.toml: systemctl enable --now shoald@NAME.
# After a change of that file: systemctl reload shoald@NAME.
[Unit]
Description=Shoal daemon %i
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
ExecStartPre={program} daemon /etc/shoal/%i.toml --check
ExecStart={program} daemon /etc/shoal/%i.toml
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=2
TimeoutStopSec=30
WatchdogSec=30
# The user is made for it, and reads no file that is root's alone. For a key, or the key of a certificate,
# leave the # before LoadCredential out, and write key_file = "/run/credentials/shoald@NAME.service/key".
DynamicUser=yes
# LoadCredential=key:/etc/shoal/%i.key
# It may write here alone: data = "/var/lib/shoal/NAME/data" for a store. Other paths count from the file.
StateDirectory=shoal/%i
WorkingDirectory=/var/lib/shoal/%i
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome={home}
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
CapabilityBoundingSet=
LockPersonality=yes
RestrictNamespaces=yes
RestrictRealtime=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
UMask=0077
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
MemoryDenyWriteExecute=yes
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
"""


def unit() -> str:
    """The text of `shoald@.service` for the `shoal` that is running."""
    beside = Path(sys.executable).with_name("shoal")
    found = str(beside) if beside.exists() else shutil.which("shoal") or "/usr/local/bin/shoal"
    # Below /home, /root and /run/user a unit with ProtectHome=yes finds no program.
    in_home = found.startswith(("/home/", "/root/"))
    return _TEMPLATE.format(program=found, home="read-only" if in_home else "yes")
