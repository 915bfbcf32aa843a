"""Notices of links: 20xx."""

from shoal.messages.notice import error, info, warning

NO_MULTICAST_SEEDS = warning(
    2001,
    "No multicast ({why}); connecting by TCP to the seeds {seeds}.",
)
NO_MULTICAST_MEETING = warning(
    2002,
    "No multicast ({why}); using TCP on this machine ({url}).",
    "To reach other hosts, set SHOAL_SEEDS=host:port, or connect to tcp://host:port.",
)
NO_NETWORK = warning(
    2007,
    "No network ({why}), and the loopback interface is down: this program reaches no other one, not even on "
    "this machine.",
    "Switch the loopback interface on: ip link set lo up.",
)
MEETING_TAKEN_OVER = warning(
    2003,
    "The program that the others of this machine connected to has ended; this program listens at {url} now.",
)
ADMIT_FAILED = error(
    2004,
    "Refused {address} at {link}: the admit function raised an exception: {why}.",
    "Correct the function; it must return True or False.",
)
ADMIT_UNDECIDED = error(
    2005,
    "Refused {address} at {link}: the admit function returned {answer}.",
    "Correct the function; it must return True or False.",
)
FEWER_CONNECTIONS = warning(
    2006,
    "Accepting at most {room} connections instead of {wanted} (connections_max): this process may open "
    "{limit} descriptors, and {reserved} are reserved.",
    "Raise the limit (ulimit -n, or LimitNOFILE= of systemd).",
)
GROUP_JOINED = info(2010, "Joined {link} from {address}.")
GROUP_REJOINED = info(2011, "Joined {link} again from {address}.")
LINK_UP = info(2012, "Link {link} is up with node {node} at {address}.")
LINK_RESUMED = info(2013, "Link {link} with node {node} at {address} resumed; nothing is missing.")
GROUP_LEFT = info(2014, "Left {link}: {why}.")
PEER_LEFT = info(2015, "Node {node} at {address} left link {link}: {why}.")
LINK_FAILED = warning(2020, "Link failed: {why}.", "It carries nothing any more; connect again.")
GROUP_UNREACHABLE = warning(
    2021,
    "Cannot reach {link} from {address}: {why}. Nothing is sent or received until the interface is back; "
    "the group is joined again then.",
)
LINK_DOWN = warning(
    2022,
    "Link {link} with member {node} at {address} is down: {why}. Messages for it are kept, within resume_s "
    "and window_bytes.",
)
LINK_RECONNECTING = warning(2023, "Not connected to {link}: {why}. Trying again in {delay_s:.2g} s.")
DENIED_HERE = warning(
    2025,
    "Denied to {address} at {link}: {why}.",
    "If it should be allowed, add a rule (shoal access explain shows the rules).",
)
DENIED_THERE = warning(
    2026,
    "The other end of {link} denies this program something: {why}.",
    "Ask its operator for a rule.",
)
LINK_RULES_UNREADABLE = error(2027, "{why}. Listeners go on with the access rules that they read before.")
LINK_REFUSED = warning(2024, "Refused a connection from {address} to {link}: {why}.")
