"""A store in a process of its own: says where it is, and stays until its standard input ends.

`python store_node.py LINK DIRECTORY DOMAIN`, where LINK is norm or tcp.
"""

import sys

import shoal


def listening_url(node: shoal.Bus) -> str:
    """Where a node listens. The connection of a store beside it is one of its links, too."""
    (url,) = [link.url for link in node.links if link.role == "listen"]
    return url


def main(link: str, directory: str, domain: str) -> None:
    """Keep a store, and print the URL by which others reach it."""
    if link == "tcp":
        node = shoal.listen("tcp://127.0.0.1:0", store=directory, router=True)
    else:
        node = shoal.connect("norm://", domain=domain, interface="lo", store=directory)
    with node:
        print(listening_url(node) if link == "tcp" else "norm://", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
