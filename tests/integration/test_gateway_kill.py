#!/usr/bin/python3
"""A gateway and its writer die at any moment, and nothing is ever half applied.

    test_gateway_kill.py XGW_GATEWAY [--kills N] [--seed N]

Every batch of revision r sets all entries of three VNIs to values that name r.  So
what a read-back shows says by itself which batch it is from, and `applied` must name
the same one.  N kills of each kind (20; at least 100 in the long form).
"""
import argparse
import concurrent.futures
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import gateway_rig as gw  # noqa: E402

ARGS, API, FOLDER = None, None, None
VNIS = (7, 8, 0xFFFFFE)
VMS = 40
OPTIONS = ("--max-routes", "10000", "--max-vm-nc", "10000", "--max-vnis", "1000",
           "--log-level", "warn")
CONFIG = {"vteps": ["172.16.0.1"], "vips": ["172.31.0.1"], "icmp_source": [],
          "underlay_source": ["172.16.0.0/12"],
          "uplinks": [{"port": "up0", "address": "172.20.0.1", "next_hop": "172.20.0.2",
                       "next_hop_mac": "02:00:00:00:00:02", "mtu": 1500}]}


def entries_of(revision):
    nc = "172.%d.%d.%d" % (16 + (revision >> 16 & 15), revision >> 8 & 255, revision & 255)
    out = []
    for vni in VNIS:
        out.append({"table": "vni", "vni": vni})
        out += [{"table": "vxlan_route", "vni": vni, "prefix": "10.%d.0.0/16" % i,
                 "scope": "idc", "endpoint": nc, "endpoint_vni": revision}
                for i in range(VMS)]
        out += [{"table": "vm_nc", "vni": vni, "vm": "10.0.0.%d" % (i + 1), "nc": nc}
                for i in range(VMS)]
    return out


def rows_of(revision):
    return {(gw.TABLES[e["table"]], e["vni"], gw.key_of(e)): gw.value_of(e)
            for e in entries_of(revision)}


def read_back(client):
    """(applied, rows): of one moment, since nobody writes."""
    messages = client.read()
    rows = {}
    for applied, packed in messages:
        for table, vni, key, value in gw.unpack(packed):
            assert (table, vni, key) not in rows, "a row came twice"
            rows[table, vni, key] = value
    return messages[0][0], rows


class Kill(unittest.TestCase):
    def gateway(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
        return gw.Gateway(ARGS.gateway, "up0=vdev:net_ring0", *OPTIONS, folder=folder)

    def check_content(self, applied, rows):
        self.assertEqual(rows, rows_of(applied) if applied else {})

    def start_writer(self, address, first):
        # gRPC and fork do not mix: a fresh interpreter.
        return subprocess.Popen(
            [sys.executable, __file__, "--writer", address, str(FOLDER), str(first)],
            stdout=subprocess.PIPE, text=True)

    def test_a_writer_that_is_killed_leaves_whole_batches(self):
        rng = random.Random(ARGS.seed)
        seen = 0
        with self.gateway() as g, gw.Client(API, g.address) as client:
            for _ in range(ARGS.kills):
                process = self.start_writer(g.address, seen + 1)
                process.stdout.readline()  # its first answer
                time.sleep(rng.random() * 0.05)  # a random point is the test
                process.kill()
                process.wait()
                process.stdout.close()
                # The stream ends when all that arrived was worked off.
                with gw.Client(API, g.address) as next_writer:
                    def is_free():
                        try:
                            return next_writer.open(1)
                        except grpc.RpcError:
                            return None
                    gw.wait_until(is_free, "the killed writer's stream ends")
                    applied, rows = read_back(client)
                self.assertGreater(applied, seen)
                self.check_content(applied, rows)
                seen = applied

    def test_a_gateway_that_is_killed_comes_back_new_and_is_filled_again(self):
        rng = random.Random(ARGS.seed)
        g = self.gateway()
        boots = set()
        for _ in range(ARGS.kills):
            g.start()
            with gw.Client(API, g.address) as client:
                status = client.open(1)
                self.assertNotIn(status.boot_id, boots)
                boots.add(status.boot_id)
                self.assertEqual((status.applied, status.ready, status.term,
                                  status.config_digest), (0, False, 0, 0))
                applied, rows = read_back(client)
                self.assertEqual((applied, rows), (0, {}))
                client.configure(gw.packed_config(CONFIG))
                for revision in range(1, 5):
                    client.write(gw.batch(gw.PUT, entries_of(revision)), revision=revision,
                                 ready=revision == 4)
                self.check_content(*read_back(client))
                self.assertTrue(client.status().ready)
                for revision in range(5, 40):  # in flight when it dies
                    client.send_write(gw.batch(gw.PUT, entries_of(revision)),
                                      revision=revision)
                time.sleep(rng.random() * 0.02)
                g.kill()
                with self.assertRaises(grpc.RpcError):
                    while True:
                        client.done()
            g.log.close()

    def test_a_second_writer_needs_a_higher_term(self):
        with self.gateway() as g, gw.Client(API, g.address) as first, \
                gw.Client(API, g.address) as second, gw.Client(API, g.address) as third:
            first.open(5)
            first.write(gw.batch(gw.PUT, entries_of(1)), term=5, revision=1)
            for term in (0, 4, 5):
                with self.assertRaises(grpc.RpcError) as e:
                    second.open(term)
                self.assertEqual(e.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
            third.open(6)
            with self.assertRaises(grpc.RpcError) as e:
                first.write(gw.batch(gw.PUT, entries_of(2)), term=5, revision=2)
            self.assertEqual(e.exception.code(), grpc.StatusCode.ABORTED)
            third.write(gw.batch(gw.PUT, entries_of(3)), term=6, revision=3)
            with self.assertRaises(gw.Failed):  # its own, but of the past
                third.write(gw.batch(gw.PUT, entries_of(4)), term=5, revision=4)
            applied, rows = read_back(third)
            self.assertEqual(applied, 3)
            self.check_content(applied, rows)

    def test_garbage_ends_its_stream_and_nothing_else(self):
        rng = random.Random(ARGS.seed)
        with self.gateway() as g, gw.Client(API, g.address) as writer, \
                gw.Client(API, g.address) as other:
            writer.open(1)
            writer.write(gw.batch(gw.PUT, entries_of(1)), revision=1)
            for n in range(50):
                stream = other.channel.stream_stream(
                    other.PATH + "Control", request_serializer=bytes,
                    response_deserializer=bytes)
                junk = rng.randbytes(rng.choice((1, 10, 100, 5000)))
                with self.assertRaises(grpc.RpcError):
                    list(stream(iter([junk]), timeout=10))
                    raise AssertionError("junk %d was taken: %s" % (n, junk.hex()))
            # A well-formed request with a batch that is none is an answer, not an end.
            good = gw.batch(gw.PUT, entries_of(2))
            for cut in (1, 12, 13, 14, 16, len(good) - 1):  # the first run has 15
                with self.assertRaises(gw.Failed):
                    writer.write(good[:cut], revision=2)
            with self.assertRaises(gw.Failed):
                writer.configure(gw.packed_config(CONFIG)[:-1])
            wrong = dict(CONFIG, uplinks=[dict(CONFIG["uplinks"][0], port="up9")])
            with self.assertRaises(gw.Failed) as e:
                writer.configure(gw.packed_config(wrong))
            self.assertIn("up9", e.exception.done.error)
            with self.assertRaises(gw.Failed):
                writer.write(revision=2, ready=True)  # no configuration
            self.check_content(*read_back(other))
            writer.write(good, revision=2)
            self.check_content(*read_back(other))

    def test_rows_that_do_not_fit_are_named_and_the_rest_is_there(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
        with gw.Gateway(ARGS.gateway, "up0=vdev:net_ring0", "--max-routes", "50", "--max-vm-nc",
                        "10000", "--max-vnis", "100", folder=folder) as g, \
                gw.Client(API, g.address) as client:
            client.open(1)
            done = client.write(gw.batch(gw.PUT, entries_of(1)), revision=1)
            want = rows_of(1)
            self.assertEqual(len(done.refusals), len(VNIS) * VMS - 50)
            for r in done.refusals:
                del want[r.table, r.vni, r.key]
            applied, rows = read_back(client)
            self.assertEqual((applied, rows), (1, want))
            status = client.status()
            self.assertEqual(status.entries[2], 50)
            self.assertEqual(status.capacity[2], 50)

    def test_the_writer_is_answered_while_everything_is_read(self):
        entries = [{"table": "vm_nc", "vni": vni, "vm": "10.%d.%d.1" % (i >> 8, i & 255),
                    "nc": "172.16.0.9"} for vni in range(1, 21) for i in range(2000)]
        folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
        with gw.Gateway(ARGS.gateway, "up0=vdev:net_ring0", "--max-vm-nc", "100000",
                        folder=folder) as g, gw.Client(API, g.address) as client, \
                gw.Client(API, g.address) as reader:
            client.open(1)
            for at in range(0, len(entries), 10000):
                client.write(gw.batch(gw.PUT, entries[at:at + 10000]))
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                reading = pool.submit(lambda: [reader.read() for _ in range(5)])
                writes = 0
                while not reading.done():
                    client.write(gw.batch(gw.PUT, entries[:1]))
                    writes += 1
                self.assertGreater(writes, 5)
                for messages in reading.result():
                    self.assertEqual(sum(len(gw.unpack(m)) for _, m in messages),
                                     len(entries))


def main():
    global ARGS, API, FOLDER
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gateway")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    ARGS = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        FOLDER = pathlib.Path(name)
        API = gw.load_api(FOLDER)
        result = unittest.main(argv=[sys.argv[0]], exit=False).result
    return 0 if result.wasSuccessful() else 1


def writer_main(address, api_folder, first):
    """Writes from revision `first` on until it is killed."""
    sys.path.insert(0, api_folder)
    import gateway_pb2 as api
    client = gw.Client(api, address)
    client.open(1)
    for revision in range(first, first + 100000):
        client.send_write(gw.batch(gw.PUT, entries_of(revision)), revision=revision)
        if revision >= first + 8:
            client.done()
            if revision == first + 8:
                print("writing", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--writer"]:
        writer_main(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        sys.exit(main())
