#!/usr/bin/python3
"""The reference forwarder on a real interface: a gateway that is slow and obvious.

    gateway.py DEVICE.json ENTRIES.ndjson PORT=INTERFACE…

Answers ARP and neighbour solicitations for the uplinks' addresses and pings to every
address of ours that a kernel sends to it through them, and forwards the rest as the
page says.  It lets the lab be tested without the gateway that the lab is there to
test.  Prints its counters as JSON when told to end (SIGTERM).
"""

import collections
import ipaddress
import json
import pathlib
import select
import signal
import socket
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from forwarder import Forwarder  # noqa: E402
from wire import (ETH_ARP, ETH_IPV6, ICMPV6, checksum, ipv6_header, mac_bytes,  # noqa: E402
                  pseudo_header, u16)

ETH_P_ALL = 3
SO_RCVBUFFORCE = 33  # <asm-generic/socket.h>; Python has no name for it


def answer(frame, links):
    """The ARP or ND reply that is due on a port with these uplinks, or None."""
    if len(frame) < 42:
        return None
    for u in links:
        own, mac = ipaddress.ip_address(u["address"]), mac_bytes(u["mac"])
        if u16(frame, 12) == ETH_ARP and frame[20:22] == b"\0\1" and own.packed == frame[38:42]:
            return (frame[6:12] + mac + frame[12:20] + b"\0\2" + mac + own.packed
                    + frame[22:32])
        if (u16(frame, 12) == ETH_IPV6 and len(frame) >= 78 and frame[20] == ICMPV6
                and frame[54] == 135 and own.packed == frame[62:78]):
            # Solicited, override; target link-layer address (RFC 4861, section 4.4).
            na = (struct.pack("!BBHI", 136, 0, 0, 0x60000000) + own.packed + b"\2\1" + mac)
            pseudo = pseudo_header(own.packed, frame[22:38], len(na), ICMPV6)
            na = na[:2] + struct.pack("!H", checksum(pseudo + na)) + na[4:]
            head = ipv6_header(own.packed, frame[22:38], len(na), ICMPV6, 255)
            return frame[6:12] + mac + b"\x86\xdd" + head + na
    return None


def main(argv):
    device = json.loads(pathlib.Path(argv[0]).read_text())
    entries = [line for line in pathlib.Path(argv[1]).read_text().splitlines() if line]
    forwarder = Forwarder(device, entries)
    ports, counters = {}, collections.Counter()
    for word in argv[2:]:
        port, name = word.split("=", 1)
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)  # we are slow
        s.bind((name, 0))
        ports[int(port)] = s
    numbers = {s.fileno(): port for port, s in ports.items()}

    def end(*_):
        print(json.dumps({"drops": {k[5:]: v for k, v in counters.items()
                                    if k.startswith("drop ")},
                          **{k: v for k, v in counters.items() if " " not in k}}), flush=True)
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    while True:
        for fd in select.select(numbers, [], [])[0]:
            frame, where = ports[numbers[fd]].recvfrom(65536)
            if where[2] == socket.PACKET_OUTGOING:
                continue
            counters["rx"] += 1
            for what, *more in forwarder.forward(frame, numbers[fd]):
                counters["drop " + more[0] if what == "drop" else what] += 1
                if what == "local":
                    links = [u for u in device["uplinks"] if u["port"] == numbers[fd]]
                    reply = answer(frame, links)
                    if reply:
                        ports[numbers[fd]].send(reply)
                elif what in ("forward", "icmp"):
                    port, out = sorted(more[0].items())[0]
                    ports[port].send(out)
                    counters["tx"] += 1


if __name__ == "__main__":
    main(sys.argv[1:])
