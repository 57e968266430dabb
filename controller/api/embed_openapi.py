#!/usr/bin/python3
"""Writes openapi.yaml as one JSON text in a C header: embed_openapi.py IN OUT."""
import json
import sys

import yaml

text = json.dumps(yaml.safe_load(open(sys.argv[1])), separators=(",", ":"))
data = text.encode()
rows = [data[i : i + 16] for i in range(0, len(data), 16)]
with open(sys.argv[2], "w") as out:
    out.write("/* generated from proto/api/openapi.yaml */\n#pragma once\n\n")
    out.write("static const unsigned char openapi_json[] = {\n")
    for row in rows:
        out.write("    " + " ".join(f"{b}," for b in row) + "\n")
    out.write("};\nstatic const unsigned long openapi_json_len = %d;\n" % len(data))
