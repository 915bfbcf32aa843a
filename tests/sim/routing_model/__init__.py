"""An executable model of routing by number: the rules of the protocol, and nothing of its encoding.

It is the oracle of the routing engine. Programs and routers are a few hundred lines of plain Python on a
network with virtual time; a seed makes a topology, a load and faults, and `verdict` judges the run. Each rule
is a switch (`rules`), so that a run can show what breaks without it.

| module | noun |
|---|---|
| `rules` | the rules, each with a switch |
| `records` | what nodes say to each other |
| `network` | links, lanes, delays, virtual time |
| `tree` | the shortest-path tree of a root, its branches and its digest |
| `chain` | a publisher's chain at a node: ring, targets, the request for what is missing |
| `node` | membership, interest clock, `Applied`, map: what routers and programs share |
| `router` | forwarding, replay, giving up |
| `program` | publishing, subscribing, `sync()` |
| `complete` | flush and sync as state |
| `run` | a run made from a seed: topology, load, faults |
| `verdict` | the invariants |

`python tests/sim/routing_model/search.py --seeds 1000` searches.
"""
