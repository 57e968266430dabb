#!/usr/bin/python3
"""An independent P4Runtime controller programs `xgw-gateway --pipeline h`.

    test_gateway_p4rt.py XGW_GATEWAY [TEST…]

Everything over real gRPC: pipeline, arbitration, writes and their errors, reads, limits,
meters, packets that follow what was written, packet I/O.  The protocol's Python comes
from our .proto by protoc, the p4info and the entries from the tests' own description.
"""
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

import grpc

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "reference")]
import cases  # noqa: E402
import compare  # noqa: E402
import gateway_rig as gw  # noqa: E402
import p4rt_rig as rig  # noqa: E402
import physical  # noqa: E402
import world  # noqa: E402
from forwarder_h import ForwarderH  # noqa: E402

PROGRAM = None
MODULES = None
MEMBERS = ["172.16.5.1", "172.16.5.2", "fd00:16:5::1"]
PORT_MAC = ("02:70:63:61:70:00", "02:70:63:61:70:01")  # DPDK's for pcap ports
OK, NOT_FOUND, EXISTS, EXHAUSTED, INVALID = 0, 5, 6, 8, 3
Code = grpc.StatusCode
Row = physical.Row


def entries():
    return [{k: v for k, v in e.items() if k != "mac"} for e in world.entries()]


class Switch:
    """A gateway with null or pcap ports, and controllers to it."""

    def __init__(self, ports="up0=null up1=null", *options):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="xgwh"))
        self.gateway = gw.Gateway(PROGRAM, ports, "--pipeline", "h", "--buffers", "2047",
                                  *(options or ("--memory", "64")), folder=self.folder)

    def __enter__(self):
        self.gateway.start()
        return self

    def __exit__(self, *_):
        self.gateway.stop()

    def controller(self, device=1, election=1, join=True, push=False):
        c = rig.Controller(MODULES, self.gateway.address, device, election)
        if join:
            c.arbitrate()
        if push:
            c.push()
        return c


def vm(key, nc=20, table="vm_nc", vni=5):
    return Row(table, {"vni": vni, "tag": 0, "key": key},
               "spill_nc" if table == "vm_nc_spill" else "set_nc", {"nc": nc})


def codes_of(call):
    try:
        call()
    except rig.Refused as e:
        return e.code, e.codes
    return None, None


class P4Runtime(unittest.TestCase):
    def refused(self, code, call, text=""):
        with self.assertRaises(rig.Refused) as e:
            call()
        self.assertEqual(e.exception.code, code, e.exception)
        self.assertIn(text, e.exception.text)
        return e.exception

    # --- pipeline ---------------------------------------------------------------------

    def test_it_says_which_version_it_speaks(self):
        with Switch() as s, s.controller() as c:
            p4 = c.p4
            got = c.call("Capabilities", p4.CapabilitiesRequest(), p4.CapabilitiesResponse)
            self.assertEqual(got.p4runtime_api_version, "1.3.0")

    def test_before_a_pipeline_nothing_can_be_written_or_read(self):
        with Switch() as s, s.controller() as c:
            self.refused(Code.FAILED_PRECONDITION, lambda: c.write([vm(1)]))
            self.refused(Code.FAILED_PRECONDITION, lambda: c.read_table("vm_nc"))
            self.refused(Code.FAILED_PRECONDITION, c.pipeline)
            c.push()
            c.write([vm(1)])

    def test_the_actions_of_a_push(self):
        with Switch() as s, s.controller() as c:
            c.push(action="VERIFY")
            self.refused(Code.FAILED_PRECONDITION, c.pipeline)
            self.refused(Code.FAILED_PRECONDITION, lambda: c.push(action="COMMIT"))
            c.push(action="VERIFY_AND_SAVE", cookie=3)
            self.refused(Code.FAILED_PRECONDITION, c.pipeline)
            c.push(action="COMMIT")
            self.assertEqual(c.pipeline().cookie.cookie, 3)
            self.refused(Code.FAILED_PRECONDITION, lambda: c.push(action="COMMIT"))
            c.write([vm(1), vm(2)])
            c.push(action="RECONCILE_AND_COMMIT", cookie=4)
            self.assertEqual(len(c.read_table("vm_nc")), 2)
            full = c.pipeline()
            self.assertEqual((full.cookie.cookie, full.p4_device_config), (4, b"the chip's image"))
            self.assertEqual(full.p4info, rig.make_p4info(c.p4info))
            only = c.pipeline("COOKIE_ONLY")
            self.assertEqual((only.cookie.cookie, only.HasField("p4info"),
                              only.p4_device_config), (4, False, b""))
            part = c.pipeline("P4INFO_AND_COOKIE")
            self.assertEqual((part.HasField("p4info"), part.p4_device_config), (True, b""))
            part = c.pipeline("DEVICE_CONFIG_AND_COOKIE")
            self.assertEqual((part.HasField("p4info"), part.p4_device_config),
                             (False, b"the chip's image"))
            c.push(action="VERIFY_AND_COMMIT")
            self.assertEqual(c.read_table(), [])
            self.refused(Code.INVALID_ARGUMENT, lambda: c.push(action="UNSPECIFIED"))

    def test_another_program_is_refused_with_what_differs(self):
        with Switch() as s, s.controller(push=True) as c:
            c.write([vm(1)])

            def changed(change):
                info = rig.make_p4info(c.p4info)
                change(info)
                return lambda: c.push(info)

            def without_table(i):
                del i.tables[5]

            def wider_field(i):
                i.tables[7].match_fields[2].bitwidth = 31

            def other_id(i):
                i.tables[0].preamble.id += 1

            def no_meter(i):
                del i.meters[1]

            for change, text in ((without_table, "route_part"), (wider_field, "vm_nc"),
                                 (other_id, "vtep"), (no_meter, "fb_service")):
                self.refused(Code.INVALID_ARGUMENT, changed(change), text)
            self.refused(Code.INVALID_ARGUMENT, lambda: c.push(c.p4info.P4Info()))
            self.assertEqual(len(c.read_table("vm_nc")), 1)
            self.assertEqual(c.pipeline().p4info, rig.make_p4info(c.p4info))

    def test_the_image_of_the_tree_is_taken(self):
        path = rig.ROOT / "p4/xgw_h.p4info.bin"
        if not path.exists():
            self.skipTest("p4/xgw_h.p4info.bin is not there yet")
        with Switch() as s, s.controller() as c:
            c.push(c.p4info.P4Info.FromString(path.read_bytes()))

    # --- arbitration ------------------------------------------------------------------

    def test_the_highest_election_id_is_primary(self):
        with Switch() as s, s.controller(election=5, push=True) as five:
            with s.controller(election=3, join=False) as three:
                self.assertEqual(three.arbitrate(), (EXISTS, 5))
                self.refused(Code.PERMISSION_DENIED, lambda: three.write([vm(1)]))
                self.refused(Code.PERMISSION_DENIED, three.push)
                three.read_table("vm_nc")  # reads are anybody's
                with s.controller(election=9, join=False) as nine:
                    self.assertEqual(nine.arbitrate(), (OK, 9))
                    for c in (five, three):  # told without asking
                        a = c.heard().arbitration
                        self.assertEqual((a.status.code, a.election_id.low), (EXISTS, 9))
                    self.refused(Code.PERMISSION_DENIED, lambda: five.write([vm(1)]))
                    nine.write([vm(1)])
                for c in (five, three):      # it is gone, and nobody follows by itself
                    a = c.heard().arbitration
                    self.assertEqual((a.status.code, a.election_id.low), (NOT_FOUND, 9))
                self.refused(Code.PERMISSION_DENIED, lambda: five.write([vm(2)]))
                self.assertEqual(three.arbitrate(election=10), (OK, 10))
                three.election = 10
                three.write([vm(2)])
                self.assertEqual(len(three.read_table("vm_nc")), 2)

    def test_what_arbitration_refuses_ends_the_stream(self):
        with Switch() as s, s.controller(election=5):
            for code, say in ((Code.NOT_FOUND, {"device": 3}), (Code.NOT_FOUND, {"device": 0}),
                              (Code.INVALID_ARGUMENT, {"election": 5}),
                              (Code.INVALID_ARGUMENT, {"election": 0}),
                              (Code.UNIMPLEMENTED, {"role": "other"})):
                with s.controller(election=4, join=False) as c:
                    self.refused(code, lambda c=c, say=say: c.arbitrate(**say))
            with s.controller(election=4) as c:
                self.refused(Code.FAILED_PRECONDITION, lambda: c.arbitrate(device=2))
            with s.controller(join=False) as c:  # without an id: watches
                self.assertEqual(c.arbitrate(election=-1), (EXISTS, 5))

    def test_devices_are_apart(self):
        with Switch() as s, s.controller(1, 5, push=True) as one, s.controller(2, 1) as two:
            self.refused(Code.FAILED_PRECONDITION, lambda: two.write([vm(1)]))
            two.push()
            one.write([vm(1), vm(2)])
            two.write([vm(1)])
            self.assertEqual((len(one.read_table("vm_nc")), len(two.read_table("vm_nc"))),
                             (2, 1))
            with s.controller(3, join=False) as three:
                self.refused(Code.NOT_FOUND, lambda: three.send(three.write_request()))
                self.refused(Code.NOT_FOUND, three.read_table)
                self.refused(Code.NOT_FOUND, three.pipeline)

    # --- writes -----------------------------------------------------------------------

    def test_each_update_has_its_own_error_and_the_rest_is_done(self):
        with Switch() as s, s.controller(push=True) as c:
            c.write([vm(1), vm(2)])
            r = c.write_request([("INSERT", vm(1)), ("INSERT", vm(3)), ("DELETE", vm(9)),
                                 ("MODIFY", vm(2, 77)), ("MODIFY", vm(8)), ("DELETE", vm(1))])
            c.add(r, "INSERT", vm(10))
            r.updates[-1].entity.table_entry.action.action.action_id = 0x01000021  # set_vni
            c.add(r, "INSERT", vm(11))
            r.updates[-1].entity.table_entry.match[0].exact.value = b"\x01" * 4  # 24 bits
            code, codes = codes_of(lambda: c.send(r))
            self.assertEqual(code, Code.UNKNOWN)
            self.assertEqual(codes[:6], [EXISTS, OK, NOT_FOUND, OK, NOT_FOUND, OK])
            self.assertIn(codes[6], (INVALID,))
            self.assertIn(codes[7], (INVALID, 11))
            got = {e.match[2].exact.value: e.action.action.params[0].value
                   for e in c.read_table("vm_nc")}
            self.assertEqual(got, {b"\x02": b"\x4d", b"\x03": b"\x14"})

    def test_what_is_written_is_read_back_the_same(self):
        device = world.device()
        rows = physical.place(device, entries() + [
            {"table": "acl", "vni": 100, "priority": 5, "action": "deny", "dst": "10.0.0.0/8",
             "proto": 6, "dport": 22}], MEMBERS)
        with Switch() as s, s.controller(push=True) as c:
            c.write(rows)
            want = sorted(r.table_entry(c.p4).SerializeToString(deterministic=True)
                          for r in rows if 0 in r.halves)
            got = sorted(e.SerializeToString(deterministic=True) for e in c.read_table())
            self.assertEqual(len(got), len(want))
            self.assertEqual(got, want)
            some = [r for r in rows if 0 in r.halves][::97]
            for r in some:
                self.assertEqual(c.read_table(row=r), [r.table_entry(c.p4)])
            c.write(rows[::-1], "DELETE")
            self.assertEqual(c.read_table(), [])
            self.assertEqual(c.read_table(row=some[0]), [])

    def test_a_table_that_fills_in_the_middle_of_a_batch(self):
        with Switch() as s, s.controller(push=True) as c:
            rules = [Row("acl", {"vni": 1, "dport": n, "has_ports": 1}, "deny", priority=n + 1)
                     for n in range(1030)]
            c.write(rules[:1000])
            r = c.write_request(("INSERT", x) for x in rules[1000:])
            code, codes = codes_of(lambda: c.send(r))
            self.assertEqual(code, Code.UNKNOWN)
            self.assertEqual(codes, [OK] * 24 + [EXHAUSTED] * 6)
            self.assertEqual(len(c.read_table("acl")), 1024)
            c.write(rules[:6], "DELETE")
            c.write(rules[1024:])

    def test_a_partition_has_sixteen_slots(self):
        with Switch() as s, s.controller(push=True) as c:
            rows = [Row("route_part", {"part": 9, **physical.route_match(n << 128, 24)},
                        "local", priority=25) for n in range(18)]
            code, codes = codes_of(lambda: c.send(c.write_request(
                ("INSERT", r) for r in rows)))
            self.assertEqual((code, codes), (Code.UNKNOWN, [OK] * 16 + [EXHAUSTED] * 2))

    def test_meters_and_counters_by_index(self):
        with Switch() as s, s.controller(push=True) as c:
            c.set_meter("fb_miss", 4095, 1000, 2000, 3000, 4000)
            self.refused(Code.UNKNOWN, lambda: c.set_meter("fb_miss", 4096, 1, 1, 1, 1))
            e = c.p4.Entity()
            e.meter_entry.meter_id = rig.METER_IDS["fb_miss"]
            e.meter_entry.index.index = 4095
            got, = c.read(e)
            self.assertEqual((got.meter_entry.config.cir, got.meter_entry.config.pburst),
                             (1000, 4000))
            e.meter_entry.ClearField("index")
            self.assertEqual(len(c.read(e)), 4096)
            e.meter_entry.meter_id = 0x14777777
            self.refused(Code.NOT_FOUND, lambda: c.read(e))
            self.assertGreater(len(c.read_counter("drop_reason")), 40)
            e = c.p4.Entity()
            e.counter_entry.counter_id = 0
            self.assertGreater(len(c.read(e)), 24576)

    # --- packets ----------------------------------------------------------------------

    def through(self, frames, rows_of, options=(), meters=(), then=None):
        """Frames that a switch programmed with rows sent out of each port."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            cases.write_pcap(folder / "in.pcap", frames)
            (folder / "none.pcap").write_bytes(
                struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
            ports = " ".join(f"up{n}=pcap:{folder}/{i}.pcap,{folder}/out{n}.pcap"
                             for n, i in ((0, "in"), (1, "none")))
            with Switch(ports, "--wait-ready", "--buffer-bytes", "65280", "--memory", "256",
                        *options) as s, s.controller(1, push=True) as one, \
                    s.controller(2, push=True) as two:
                for m in meters:
                    one.set_meter(*m)
                for c in (two, one):
                    c.write([r for r in rows_of if r.table != "vtep"])
                two.write([r for r in rows_of if r.table == "vtep"])
                one.write([r for r in rows_of if r.table == "vtep"])

                def seen():
                    drops = sum(e.data.packet_count for c in (one, two)
                                for e in c.read_counter("drop_reason"))
                    out = sum(len(self.frames(folder / f"out{n}.pcap")) for n in (0, 1))
                    return drops + out >= len(frames)

                self.drops = {e.index.index: e.data.packet_count
                                            for e in one.read_counter("drop_reason")
                                            if e.data.packet_count}
                if then:
                    then(self, one, folder)
                else:
                    self.one, self.two = one, two
                    gw.wait_until(lambda: self.counted(one, two) >= self.expected_drops,
                                  "every drop is counted")
                    self.vnis = {e.index.index: e.data.packet_count
                                 for e in one.read_counter("vni_counter")
                                 if e.data.packet_count}
            return {n: self.frames(folder / f"out{n}.pcap") for n in (0, 1)}

    @staticmethod
    def counted(*controllers):
        return sum(e.data.packet_count for c in controllers
                   for e in c.read_counter("drop_reason"))

    @staticmethod
    def frames(path):
        return [f for f in compare.read_pcap(path) if compare.is_vxlan(f)] if (
            path.exists() and path.stat().st_size > 23) else []

    def test_packets_follow_what_the_controller_wrote(self):
        device = world.device()
        for u in device["uplinks"]:
            u["mac"] = PORT_MAC[u["port"]]
        rows = entries()
        forwarder = ForwarderH(device, rows, MEMBERS)
        packets = [f for _, f in cases.scopes()] + [f for _, f in cases.outer_headers()]
        packets = [f for f in packets if forwarder.forward(f, 0)[0][0] != "local"]
        want = [forwarder.forward(f, 0)[0] for f in packets]
        self.expected_drops = sum(w[0] == "drop" for w in want)
        addresses = " ".join("up%d=%s>%s" % (u["port"], u["address"], u["next_hop"])
                             for u in device["uplinks"])
        # The last packet is a drop, so that all are through when it is counted.
        packets.append(packets[[w[0] for w in want].index("drop")])
        self.expected_drops += 1
        out = self.through(packets, physical.place(device, rows, MEMBERS),
                           ("--addresses", addresses))
        allowed = []
        for w in want:
            if w[0] == "forward":
                allowed.append({f for fs in w[1].values()
                                for f in (fs if isinstance(fs, list) else [fs])})
        got = out[0] + out[1]
        self.assertEqual(len(got), len(allowed))
        for f in got:
            match = next((a for a in allowed if f in a), None)
            self.assertIsNotNone(match, f.hex())
            allowed.remove(match)

    def test_a_flooded_fallback_is_metered_and_counted(self):
        device = world.device()
        for u in device["uplinks"]:
            u["mac"] = PORT_MAC[u["port"]]
        miss = cases.tunnel(cases.plain(dst="99.0.0.1"), vni=100)
        hit = cases.tunnel(cases.plain(dst="10.0.0.44"), vni=100)
        rows = physical.place(device, entries(), MEMBERS, lambda vni: 0)
        # Room for ten packets of the class, and a rate that brings none meanwhile.
        room = 10 * len(miss)
        self.expected_drops = 90
        out = self.through([miss] * 100 + [hit] * 50, rows,
                           meters=[("fb_class", 0, 1, room, 1, room)])
        members = [physical.ipaddress.ip_address(m).packed for m in MEMBERS]
        got = out[0] + out[1]
        self.assertEqual(sum(f[30:34] in members for f in got), 10)
        self.assertEqual(sum(f[30:34] not in members for f in got), 50)
        self.assertEqual(self.vnis, {0: 150})

    def test_arp_is_answered_only_while_vtep_has_rows(self):
        ask = bytes(cases.ether("ff:ff:ff:ff:ff:ff") / cases.ARP(
            op=1, hwsrc=cases.PEER_MAC, psrc="172.20.0.2", pdst="172.20.0.1"))
        vtep = Row("vtep", physical.prefix_match(world.VTEP4), "is_vtep", priority=1)

        def replies(path):
            return [f for f in compare.read_pcap(path) if f[12:14] == b"\x08\x06"
                    and f[20:22] == b"\0\2"]

        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            cases.write_pcap(folder / "in.pcap", [ask])
            options = ("--addresses", "up0=172.20.0.1>172.20.0.2", "--memory", "64")
            for ready in (False, True):
                ports = f"up0=pcap:{folder}/in.pcap,{folder}/out.pcap"
                with Switch(ports, *options, *(("--wait-ready",) if ready else ())) as s, \
                        s.controller() as c:
                    c.push(action="RECONCILE_AND_COMMIT")  # keeps what was counted
                    if ready:
                        c.write([vtep])
                        self.assertEqual(c.heard().packet.payload, ask)
                    else:  # it was there before anybody told the switch who it is
                        gw.wait_until(lambda c=c: c.read_counter(
                            "drop_reason", 1)[0].data.packet_count == 1, "not_ready")
                        c.write([vtep])
                        c.write([vtep], "DELETE")
                reply = replies(folder / "out.pcap")
                self.assertEqual(len(reply), int(ready))
            self.assertEqual(reply[0][28:32], bytes([172, 20, 0, 1]))

    def test_over_tls_a_controller_without_a_certificate_is_refused(self):
        with tempfile.TemporaryDirectory() as name:
            for args in (("req", "-x509", "-newkey", "ec", "-pkeyopt",
                          "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem", "-out",
                          "cert.pem", "-days", "2", "-subj", "/CN=switch", "-addext",
                          "subjectAltName=IP:127.0.0.1"),):
                subprocess.run(["openssl", *args], cwd=name, check=True,
                               stderr=subprocess.DEVNULL)
            pem = {n: (pathlib.Path(name) / f"{n}.pem").read_bytes() for n in ("key", "cert")}
            s = Switch("up0=null up1=null", "--memory", "64", "--tls-ca", f"{name}/cert.pem",
                       "--tls-cert", f"{name}/cert.pem", "--tls-key", f"{name}/key.pem")
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            s.gateway.args[s.gateway.args.index("--control") + 1] = f"127.0.0.1:{port}"
            with s:
                for key, cert, works in ((pem["key"], pem["cert"], True), (None, None, False)):
                    channel = grpc.secure_channel(
                        f"127.0.0.1:{port}",
                        grpc.ssl_channel_credentials(pem["cert"], key, cert))
                    call = channel.unary_unary(
                        rig.Controller.SERVICE + "Capabilities",
                        request_serializer=bytes, response_deserializer=bytes)
                    if works:
                        grpc.channel_ready_future(channel).result(timeout=30)
                        self.assertIn(b"1.3.0", call(b"", timeout=20))
                    else:
                        with self.assertRaises(grpc.RpcError) as e:
                            call(b"", timeout=20)
                        self.assertEqual(e.exception.code(), Code.UNAVAILABLE)
                    channel.close()

    def test_a_packet_of_the_controller_goes_out_and_one_for_us_comes_in(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            ping = bytes(cases.ether() / cases.IP(src=world.NC4, dst=world.VTEP4)
                         / cases.ICMP())
            cases.write_pcap(folder / "in.pcap", [ping])
            ports = f"up0=pcap:{folder}/in.pcap,{folder}/out.pcap"
            with Switch(ports, "--wait-ready") as s, s.controller(push=True) as c, \
                    s.controller(election=0, join=False) as backup:
                backup.arbitrate(election=-1)
                c.write([Row("vtep", physical.prefix_match(world.VTEP4), "is_vtep",
                             priority=1)])
                got = c.heard().packet
                self.assertEqual((got.payload, got.metadata[0].value), (ping, b"\0"))
                backup.packet_out(0, b"x" * 60)
                self.assertEqual(backup.heard().error.canonical_code, 7)
                c.packet_out(9, b"x" * 60)
                self.assertEqual(c.heard().error.canonical_code, INVALID)
                frame = bytes(range(100))
                c.packet_out(0, frame)
                gw.wait_until(lambda: (folder / "out.pcap").stat().st_size > 130,
                              "the frame is in the file")
            self.assertEqual(compare.read_pcap(folder / "out.pcap"), [frame])


def main():
    global PROGRAM, MODULES
    PROGRAM = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        MODULES = rig.load_p4(folder)
        unittest.main(argv=sys.argv[:1] + sys.argv[2:])


if __name__ == "__main__":
    main()
