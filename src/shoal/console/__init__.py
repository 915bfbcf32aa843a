"""The console: an operator's view of a domain in a browser (`shoal console`).

It is a member of the domain. `state`, `picture`, `alarms`, `sessions` and `audit` see no network and no
clock; `source` asks the domain, `app` and `routes` speak HTTP, `service` runs them.
"""
