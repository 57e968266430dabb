"""P4Info messages, decoded by what protoc makes of proto/api/p4info.proto."""

import importlib
import pathlib
import sys
import tempfile

from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def generate(folder, *names, grpc=False, where=ROOT / "proto/api"):
    """Python modules of WHERE/NAME.proto in `folder`, which goes on sys.path."""
    args = ["protoc", "-I%s" % where, "-I/usr/include",
            "--python_out=%s" % folder]
    if grpc:
        args.append("--grpc_python_out=%s" % folder)
    if protoc.main(args + ["%s.proto" % n for n in names]):
        raise RuntimeError("protoc does not take %s" % ", ".join(names))
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return [importlib.import_module(n + "_pb2") for n in names]


def load(path):
    """The P4Info message of a binary file."""
    with tempfile.TemporaryDirectory() as folder:
        if "p4info_pb2" in sys.modules:
            module = sys.modules["p4info_pb2"]
        else:
            module = generate(folder, "p4info")[0]
            sys.path.remove(folder)
    info = module.P4Info()
    info.ParseFromString(pathlib.Path(path).read_bytes())
    return info


def last(name):
    """The last part of a P4 name: "IngressA.checks.vni" is "vni"."""
    return name.split(".")[-1]
