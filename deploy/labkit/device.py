#!/usr/bin/python3
"""What an xgw-gateway says of itself on its control socket: status and counters, as JSON.

    device.py API SOCKET      API: the folder of gateway_pb2.py, made by protoc
"""

import json
import sys

import grpc


def main(api, socket):
    sys.path.insert(0, api)
    import gateway_pb2 as pb

    with grpc.insecure_channel(socket) as channel:
        def ask(name, request, reply):
            call = channel.unary_unary("/xgw.gateway.v1.Gateway/" + name,
                                       request_serializer=request.SerializeToString,
                                       response_deserializer=reply.FromString)
            return call(request(), timeout=10)

        status = ask("GetStatus", pb.GetStatusRequest, pb.Status)
        counters = ask("GetCounters", pb.GetCountersRequest, pb.Counters)
    print(json.dumps({
        "boot_id": "%016x" % status.boot_id, "applied": status.applied,
        "ready": status.ready, "writes": status.writes, "entries": list(status.entries),
        "memory_bytes": status.memory_bytes, "forwarded": counters.forwarded,
        "icmp_sent": counters.icmp_sent, "local": counters.local,
        "drops": {d.reason: d.packets for d in counters.drops}}))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except grpc.RpcError as e:
        sys.exit("device: %s" % e.details())
