#!/usr/bin/python3
"""The controller's gRPC API, asked by Python's gRPC.

    test_grpc_api.py XGW_CONTROLLER [unittest arguments]
"""
import os
import pathlib
import queue
import shutil
import sys
import tempfile
import threading
import unittest

import grpc

import packed
from controller_rig import Controller, load_proto

PROGRAM = None
PROTO = None
CODE = grpc.StatusCode
OPERATOR, VIEWER = "operator-token-00", "viewer-token-0000"


def vms(vni, count, first=0, nc="172.16.1.1"):
    return [{"table": "vm_nc", "vni": vni, "vm": f"10.0.{i >> 8}.{i & 255}", "nc": nc}
            for i in range(first + 1, first + count + 1)]


def tenant(vni):
    return {"table": "tenant", "vni": vni, "cluster": "k", "name": ""}


class Case(unittest.TestCase):
    options = {}

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="xgw-grpc-")
        cls.c = Controller(PROGRAM, cls.folder, **cls.options).start()
        cls.pb, stubs, cls.rpc = PROTO
        cls.channel = cls.c.channel()
        cls.stub = stubs.ControllerStub(cls.channel)
        cls.c.token = "admin-token-000000" if "tokens" in cls.options else None
        a = cls.c.request("PUT", "/v1/clusters/k", {"vip_v4": "172.31.0.1"})
        assert a.status == 200, a

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        cls.c.stop()
        shutil.rmtree(cls.folder)

    def apply(self, entries, metadata=None, **fields):
        ops = entries if isinstance(entries, bytes) else packed.batch(entries)
        return self.stub.Apply(self.pb.ApplyRequest(ops=ops, **fields), timeout=30,
                               metadata=metadata)

    def fails(self, code, call, *args, **kwargs):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*args, **kwargs)
        self.assertEqual(caught.exception.code(), code, caught.exception)
        return caught.exception

    def details(self, error):
        """(field, rule, rc) of the standard details."""
        status = self.rpc.Status.FromString(
            dict(error.trailing_metadata())["grpc-status-details-bin"])
        bad, info = self.rpc.BadRequest(), self.rpc.ErrorInfo()
        self.assertTrue(any(d.Unpack(info) for d in status.details))
        self.assertEqual(info.domain, "xgw")
        for d in status.details:
            d.Unpack(bad)
        v = bad.field_violations[0] if bad.field_violations else None
        return (v.field, v.reason, info.reason) if v else (None, None, info.reason)


class Unary(Case):
    def test_apply_and_status(self):
        entries = [tenant(100), *vms(100, 20)]
        reply = self.apply(entries)
        self.assertEqual((reply.added, reply.applied), (21, False))
        self.assertEqual(self.apply(entries).unchanged, 21)
        status = self.stub.GetStatus(self.pb.GetStatusRequest(), timeout=30)
        rest = self.c.request("GET", "/v1/status").json
        self.assertTrue(status.ready)
        self.assertEqual((status.revision, status.term), (rest["revision"], rest["term"]))
        for table, number in packed.TABLES.items():
            self.assertEqual(status.entries[number], rest["tables"][table]["entries"])
            self.assertEqual(f"{status.digest[number]:016x}",
                             rest["tables"][table]["digest"])

    def test_apply_names_what_is_wrong(self):
        self.apply([tenant(110)])
        before = self.c.digests()
        loop = {"table": "vxlan_route", "vni": 110, "prefix": "10.0.0.0/8",
                "scope": "peer", "peer_vni": 119}
        for ops, code, details in (
                ([loop], CODE.INVALID_ARGUMENT, ("peer_vni", "peer_unknown", "invalid")),
                ([{**tenant(111), "cluster": "mars"}], CODE.INVALID_ARGUMENT,
                 ("cluster", "unknown_cluster", "invalid")),
                (vms(112, 1), CODE.INVALID_ARGUMENT, ("vni", "unknown_tenant", "invalid")),
                (vms(110, 1) * 2, CODE.INVALID_ARGUMENT, ("vm", "duplicate_key", "invalid")),
                (b"", CODE.INVALID_ARGUMENT, ("ops", "batch_size", "invalid")),
                (b"\x01", CODE.INVALID_ARGUMENT, None),
                (os.urandom(1000), CODE.INVALID_ARGUMENT, None),
                (packed.batch(vms(110, 1))[:-1], CODE.INVALID_ARGUMENT, None),
                (packed.batch(vms(110, 1)).replace(b"\x01\x03", b"\x03\x03", 1),
                 CODE.INVALID_ARGUMENT, None)):
            with self.subTest(ops=str(ops)[:60]):
                error = self.fails(code, self.apply, ops)
                if details:
                    self.assertEqual(self.details(error), details)
        error = self.fails(CODE.OUT_OF_RANGE, self.apply, b"\x01" * ((1 << 20) + 1))
        self.assertEqual(self.details(error)[:2], ("ops", "batch_bytes"))
        error = self.fails(CODE.OUT_OF_RANGE, self.apply, vms(110, 1), request_id="x" * 64)
        self.assertEqual(self.details(error)[0], "request_id")
        error = self.fails(CODE.OUT_OF_RANGE, self.apply, vms(110, 1), wait_ms=600001)
        self.assertEqual(self.details(error)[0], "wait_ms")
        self.assertEqual(self.c.digests(), before)
        self.apply(vms(110, 50))
        error = self.fails(CODE.PERMISSION_DENIED, self.apply,
                           [{"op": "delete", **{k: v[k] for k in ("table", "vni", "vm")}}
                            for v in vms(110, 40)])
        self.assertEqual(self.details(error), ("confirm", "mass_delete", "denied"))

    def test_dry_run_create_only_and_request_ids(self):
        self.apply([tenant(120)])
        before = self.c.digests()
        self.assertEqual(self.apply(vms(120, 3), dry_run=True).added, 3)
        self.assertEqual(self.c.digests(), before)
        first = self.apply(vms(120, 3), request_id="grpc-1")
        again = self.apply(vms(120, 3, nc="172.16.9.9"), request_id="grpc-1")
        self.assertTrue(again.repeated_request)
        self.assertEqual((again.revision, again.added), (first.revision, 3))
        self.fails(CODE.ALREADY_EXISTS, self.apply, vms(120, 1, nc="172.16.9.9"),
                   create_only=True)

    def test_bytes_that_are_no_message(self):
        for method in ("Apply", "Watch", "GetImport"):
            call = self.channel.unary_stream if method == "Watch" else self.channel.unary_unary
            raw = call(f"/xgw.controller.v1.Controller/{method}")
            for data in (b"\xff" * 20, b"\x7a\x7f\x01", b"\x0a\xff\xff\xff\xff\x0f"):
                self.fails(CODE.INVALID_ARGUMENT, lambda: list(raw(data, timeout=30))
                           if method == "Watch" else raw(data, timeout=30))
        self.fails(CODE.INVALID_ARGUMENT, self.stub.GetImport,
                   self.pb.GetImportRequest(input_digest=b"short"), timeout=30)


class Import(Case):
    def requests(self, digest, batches, first=1):
        line = first
        for batch in batches:
            yield self.pb.ImportRequest(
                input_digest=digest, first_line=line, next_line=line + len(batch),
                ops=packed.batch(batch))
            line += len(batch)

    def next_line(self, digest):
        return self.stub.GetImport(self.pb.GetImportRequest(input_digest=digest),
                                   timeout=30).next_line

    def run_import(self, digest, batches, first=1):
        return list(self.stub.Import(self.requests(digest, batches, first), timeout=60))

    def test_batches_are_answered_in_order(self):
        self.apply([tenant(200)])
        digest = b"in-order-2000000"
        self.assertEqual(self.next_line(digest), 0)
        batches = [vms(200, 100, 100 * i) for i in range(200)]
        replies = self.run_import(digest, batches)
        self.assertEqual([r.next_line for r in replies],
                         [100 * i + 101 for i in range(200)])
        self.assertEqual({(r.code, r.added) for r in replies}, {(0, 100)})
        self.assertEqual(self.next_line(digest), 20001)
        # All of it again: a repeat of each, nothing changes.
        before = self.c.digests()
        self.assertEqual(len(self.run_import(digest, batches)), 200)
        self.assertEqual(self.c.digests(), before)

    def test_behind_a_bad_batch_nothing_is_applied_and_it_resumes(self):
        self.apply([tenant(210)])
        digest = b"bad-in-the-middl"
        good = [vms(210, 10, 10 * i) for i in range(40)]
        bad = list(good)
        bad[17] = [*good[17][:4], {**good[17][4], "vni": 219}, *good[17][5:]]
        replies = self.run_import(digest, bad)
        self.assertEqual(len(replies), 18)
        self.assertEqual({r.code for r in replies[:17]}, {0})
        last = replies[17]
        self.assertNotEqual(last.code, 0)
        self.assertEqual((last.rule, last.field, last.bad_index), ("unknown_tenant", "vni", 4))
        self.assertIn("219", last.error)
        self.assertEqual(self.next_line(digest), 171)
        self.assertEqual(self.c.request("GET", "/v1/tenants/210").json["vms"], 170)
        replies = self.run_import(digest, good[17:], 171)
        self.assertEqual([r.code for r in replies], [0] * 23)
        self.assertEqual(self.c.request("GET", "/v1/tenants/210").json["vms"], 400)

    def test_a_gap_is_refused(self):
        self.apply([tenant(220)])
        digest = b"a-gap-a-gap-a-ga"
        replies = self.run_import(digest, [vms(220, 5)], 6)
        self.assertEqual([r.rule for r in replies], ["import_gap"])
        self.assertEqual(self.next_line(digest), 0)

    def test_malformed_requests_end_the_stream_behind_what_was_good(self):
        self.apply([tenant(230)])
        digest = b"malformed-malfor"
        for bad in ({"input_digest": b"short"}, {"input_digest": b"\0" * 16},
                    {"first_line": 0}, {"next_line": 11}, {"ops": b""}):
            def requests():
                yield from self.requests(digest, [vms(230, 10)])
                fields = {"input_digest": digest, "first_line": 11, "next_line": 12,
                          "ops": packed.batch(vms(230, 1, 10)), **bad}
                yield self.pb.ImportRequest(**fields)
            with self.subTest(bad=bad):
                got = []
                with self.assertRaises(grpc.RpcError) as caught:
                    for r in self.stub.Import(requests(), timeout=30):
                        got.append(r.next_line)
                self.assertIn(caught.exception.code(),
                              (CODE.INVALID_ARGUMENT, CODE.OUT_OF_RANGE))
                self.assertEqual(got, [11])  # what was sent before has its answer
                self.assertEqual(self.c.request("GET", "/v1/tenants/230").json["vms"], 10)

    def test_a_client_that_leaves_in_the_middle_leaves_whole_batches(self):
        self.apply([tenant(240)])
        digest = b"leaves-leaves-le"
        batches = [vms(240, 50, 50 * i) for i in range(100)]
        call = self.stub.Import(self.requests(digest, batches), timeout=60)
        for _ in range(5):
            next(call)
        call.cancel()
        line = self.next_line(digest)
        # What was sent may still be stored: the token moves on with it, and never else.
        replies = self.run_import(digest, batches)
        self.assertEqual({r.code for r in replies}, {0})
        self.assertGreaterEqual(line, 251)
        self.assertEqual(self.next_line(digest), 5001)
        self.assertEqual(self.c.request("GET", "/v1/tenants/240").json["vms"], 5000)


class Watch(Case):
    def start(self, revision=0):
        call = self.stub.Watch(self.pb.WatchRequest(from_revision=revision), timeout=60)
        seen = queue.Queue()

        def read():
            try:
                for reply in call:
                    seen.put(reply)
            except grpc.RpcError as e:
                seen.put(e)
        threading.Thread(target=read, daemon=True).start()
        return call, seen

    def test_changes_come_as_they_commit(self):
        revision = self.apply([tenant(300)]).revision
        call, seen = self.start(revision + 1)
        other, other_seen = self.start(revision + 1)
        sent = []
        for i in range(20):
            ops = packed.batch(vms(300, 5, 5 * i))
            sent.append((self.apply(ops).revision, ops))
        for q in (seen, other_seen):
            got = []
            while len(got) < 20:
                reply = q.get(timeout=30)
                self.assertNotIsInstance(reply, Exception)
                if reply.ops:
                    got.append((reply.revision, reply.ops))
            self.assertEqual(got, sent)
        call.cancel()
        other.cancel()
        self.assertEqual(self.apply(vms(300, 1, 1000)).added, 1)

    def test_the_past_is_not_kept(self):
        self.apply([tenant(310)])
        error = self.fails(CODE.ABORTED, lambda: list(self.stub.Watch(
            self.pb.WatchRequest(from_revision=1), timeout=30)))
        self.assertEqual(self.details(error)[:2], ("from_revision", "compacted"))


class Roles(Case):
    options = {"tls": True, "tokens": f"{OPERATOR} operator o\n{VIEWER} viewer v\n"
                                      "admin-token-000000 admin a\n"}

    def test_roles(self):
        def bearer(token):
            return [("authorization", f"Bearer {token}")]
        status = self.pb.GetStatusRequest()
        self.fails(CODE.UNAUTHENTICATED, self.stub.GetStatus, status, timeout=30)
        self.fails(CODE.UNAUTHENTICATED, self.stub.GetStatus, status, timeout=30,
                   metadata=bearer("nobody-nobody-00"))
        self.stub.GetStatus(status, timeout=30, metadata=bearer(VIEWER))
        error = self.fails(CODE.PERMISSION_DENIED, self.apply, [tenant(400)],
                           metadata=bearer(VIEWER))
        self.assertEqual(self.details(error)[1], "role")
        self.assertEqual(self.apply([tenant(400)], metadata=bearer(OPERATOR)).added, 1)
        self.fails(CODE.PERMISSION_DENIED, lambda: list(self.stub.Import(
            iter([]), timeout=30, metadata=bearer(VIEWER))))
        self.fails(CODE.UNAUTHENTICATED, lambda: list(self.stub.Watch(
            self.pb.WatchRequest(), timeout=30)))

    def test_a_device_without_a_certificate_has_no_session(self):
        session = self.channel.stream_stream("/xgw.agent.v1.AgentSession/Session")
        # ToController.hello with no device id, and with one that no certificate names
        for hello in (b"\x0a\x00", b"\x0a\x05\x0a\x03gw1"):
            with self.assertRaises(grpc.RpcError) as caught:
                list(session(iter([hello]), timeout=30))
            self.assertIn(caught.exception.code(),
                          (CODE.UNAUTHENTICATED, CODE.INVALID_ARGUMENT))


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    with tempfile.TemporaryDirectory() as scratch:
        PROTO = load_proto(pathlib.Path(scratch))
        unittest.main(verbosity=2)
