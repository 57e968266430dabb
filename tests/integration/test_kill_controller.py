#!/usr/bin/python3
"""kill -9 of xgw-controller at random moments, under REST writes and a gRPC import.

    test_kill_controller.py XGW_CONTROLLER [KILLS] [SEED]      (default 15; KILLS env)

Writers keep a model of what they were told.  After each restart:

  - every acknowledged write is there, as it was acknowledged;
  - of what was in flight, all or nothing of each batch is there;
  - the digests are those of the model's entries, worked out anew in packed.py.
"""
import concurrent.futures
import hashlib
import http.client
import os
import pathlib
import random
import sys
import tempfile
import threading
import time

import grpc

import packed
from controller_rig import Controller, load_proto, ndjson

REST_WRITERS = 4
BATCH = 50


def vm_of(vni, i, generation):
    return {"table": "vm_nc", "vni": vni, "vm": f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}",
            "nc": f"172.16.{generation >> 8 & 255}.{generation & 255}"}


def name(e):
    return e["table"], e["vni"], e.get("vm"), e.get("prefix")


class Writer:
    """Of one VNI: `state` is what was acknowledged; `flying` the batch that was not."""

    def __init__(self, c, vni, seed):
        self.c, self.vni, self.random = c, vni, random.Random(seed)
        self.state, self.flying = {}, None
        self.acknowledged = 0
        self.generation = 0

    def next_batch(self):
        self.generation += 1
        kind = self.random.random()
        if kind < 0.15 and len(self.state) > 200:
            # fewer than half: no mass delete of the tenant; confirmed for the region's
            gone = self.random.sample(sorted(self.state), 20)
            return [{"op": "delete", "table": t, "vni": v, **({"vm": a} if a else
                                                             {"prefix": p})}
                    for t, v, a, p in gone if t != "tenant"]
        if kind < 0.5:
            i = self.random.randrange(2000)
            return [vm_of(self.vni, i, self.generation)]
        if kind < 0.6:
            return [{"table": "vxlan_route", "vni": self.vni,
                     "prefix": f"10.{self.random.randrange(200)}.0.0/16", "scope": "idc",
                     "endpoint": "172.16.0.9", "endpoint_vni": self.generation}]
        return [vm_of(self.vni, i, self.generation)
                for i in self.random.sample(range(2000), BATCH)]

    @staticmethod
    def apply(state, batch):
        state = dict(state)
        for e in batch:
            if e.get("op") == "delete":
                state.pop(name(e), None)
            else:
                state[name(e)] = e
        return state

    def settle(self, found):
        """After a restart: `found` is the old state or the one with the batch."""
        if found != self.state:
            assert self.flying, f"vni {self.vni}: acknowledged writes are missing or wrong"
            after = self.apply(self.state, self.flying)
            differ = {k for k in found.keys() | after.keys() if found.get(k) != after.get(k)}
            assert found == after, (f"vni {self.vni}: neither before nor behind the batch: "
                                    f"{sorted(differ)[:5]}")
            self.state = after
        self.flying = None

    def run(self, until):
        """Writes until the connection breaks."""
        connection = self.c.connect()
        while not until.is_set():
            batch = self.flying = self.next_batch()
            try:
                a = self.c.request("POST", "/v1/entries?confirm=true", ndjson(batch),
                                   connection=connection)
            except (OSError, http.client.HTTPException):
                break
            if a.status == 503:
                break
            assert a.status == 200, a
            self.state = self.apply(self.state, batch)
            self.flying = None
            self.acknowledged += 1
        connection.close()


class Importer(Writer):
    """The same for one long gRPC import, which resumes where GetImport says."""

    def __init__(self, c, vni, seed, proto):
        super().__init__(c, vni, seed)
        self.pb, self.stubs = proto[0], proto[1]
        self.digest = hashlib.sha256(f"import {seed}".encode()).digest()[:16]
        self.next_line = 1
        self.sent = {}  # first line -> its batch, until acknowledged

    def batch_at(self, line):
        start = line - 1
        return [vm_of(self.vni, (start + k) % 4000, start // 4000 + 1) for k in range(BATCH)]

    def settle(self, found):
        line = self.next_line
        state = self.state
        while found != state and line in self.sent:
            state = self.apply(state, self.batch_at(line))
            line += BATCH
        assert found == state, f"vni {self.vni}: no whole number of batches of the import"
        # The resume token is stored with the batch.
        with self.c.channel() as channel:
            token = self.stubs.ControllerStub(channel).GetImport(
                self.pb.GetImportRequest(input_digest=self.digest), timeout=30).next_line
        assert (token or 1) == line, f"resume token {token}, tables are at {line}"
        self.acknowledged += (line - self.next_line) // BATCH
        self.state, self.next_line, self.sent = state, line, {}

    def run(self, until):
        def requests():
            line = self.next_line
            while not until.is_set():
                batch = self.batch_at(line)
                self.sent[line] = batch
                yield self.pb.ImportRequest(input_digest=self.digest, first_line=line,
                                            next_line=line + BATCH, confirm=True,
                                            ops=packed.batch(batch))
                line += BATCH
        with self.c.channel() as channel:
            try:
                for reply in self.stubs.ControllerStub(channel).Import(requests(),
                                                                      timeout=60):
                    assert reply.code == 0, reply
                    line = reply.next_line - BATCH
                    assert line == self.next_line, (line, self.next_line)
                    self.state = self.apply(self.state, self.sent.pop(line))
                    self.next_line = reply.next_line
                    self.acknowledged += 1
            except grpc.RpcError as e:
                assert e.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED,
                                    grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN), e


def read_all(c, vni):
    found = {}
    tenant = c.request("GET", f"/v1/tenants/{vni}").json
    for field in ("routes", "vms", "revision"):
        tenant.pop(field)
    found[name(tenant)] = tenant
    for what in ("routes", "vms"):
        token = ""
        while token is not None:
            page = c.request("GET", f"/v1/tenants/{vni}/{what}?pageSize=1000" + (
                f"&pageToken={token}" if token else "")).json
            found.update({name(e): e for e in page["items"]})
            token = page.get("next_page_token")
    return found


def check(c, writers):
    for w in writers:
        w.settle(read_all(c, w.vni))
    entries = [e for w in writers for e in w.state.values()]
    for table, digest in c.digests().items():
        want = packed.digest([e for e in entries if e["table"] == table])
        assert digest == want, f"digest of {table}: {digest}, the model's is {want}"


def prepare(c, writers):
    a = c.request("PUT", "/v1/clusters/k", {"vip_v4": "172.31.0.1"})
    assert a.status == 200, a
    for w in writers:
        a = c.request("PUT", f"/v1/tenants/{w.vni}", {"cluster": "k", "name": "w"})
        assert a.status == 200, a
        w.settle_start = w.state = read_all(c, w.vni)


def main():
    program = os.path.abspath(sys.argv[1])
    kills = int(sys.argv[2] if len(sys.argv) > 2 else os.environ.get("KILLS", "15"))
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**31)
    moments = random.Random(seed)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="xgw-kill-") as folder:
        (pathlib.Path(folder) / "pb").mkdir()
        proto = load_proto(pathlib.Path(folder) / "pb")
        c = Controller(program, folder).start()
        writers = [Writer(c, 100 + i, seed + i) for i in range(REST_WRITERS)]
        writers.append(Importer(c, 200, seed, proto))
        prepare(c, writers)
        loading = 0
        for n in range(kills):
            until = threading.Event()
            with concurrent.futures.ThreadPoolExecutor(len(writers)) as pool:
                jobs = [pool.submit(w.run, until) for w in writers]
                # A random moment is what is tested: nothing is waited for here.
                time.sleep(moments.uniform(0.01, 0.6))
                c.kill()
                until.set()
                for job in jobs:
                    job.result()
            c.start(wait=False)
            if moments.random() < 0.3:  # once more, while it starts or loads
                time.sleep(moments.uniform(0, 0.1))
                c.kill()
                loading += 1
                c.start(wait=False)
            c.wait_ready()
            check(c, writers)
        c.stop()
        c.start()
        check(c, writers)
        c.stop()
        total = sum(w.acknowledged for w in writers)
        entries = sum(len(w.state) for w in writers)
        assert total > kills, "too little was written for the test to mean anything"
        assert writers[-1].acknowledged > 0, "nothing was imported"
        print(f"{kills} kills under load, {loading} while starting: {total} acknowledged "
              f"batches ({writers[-1].acknowledged} of the import), {entries} entries "
              f"at the end, digests equal")


if __name__ == "__main__":
    main()
