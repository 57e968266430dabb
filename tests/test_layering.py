#!/usr/bin/python3
"""The layering check finds each kind of breach, and nothing in what is allowed."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from layering import Tree  # noqa: E402


def breaches(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return list(Tree(pathlib.Path(root)).breaches())


class Layering(unittest.TestCase):
    def test_what_is_allowed(self):
        self.assertEqual(breaches({
            "proto/base/err.h": "#include <stdint.h>\n",
            "proto/model/a.c": '#include "proto/base/err.h"\n/* time() is asked elsewhere */',
            "controller/core/c.c": '#include "controller/store/store.h"\n'
                                   'int x = downtime(3); const char *s = "time (";',
            "controller/main.c": '#include "controller/core/c.h"\n#include <event2/event.h>\n',
            "agent/gateway/g.c": '#include <rte_mbuf.h>\n#include "agent/fwd/fwd.h"\n',
        }), [])

    def test_each_kind_of_breach(self):
        for name, text in (
                ("proto/base/a.c", '#include "proto/model/entry.h"'),
                ("proto/model/a.c", '#include "controller/core/core.h"'),
                ("proto/model/a.c", "#include <time.h>"),
                ("proto/model/a.c", "int t(void) { return clock_gettime (0, 0); }"),
                ("controller/core/a.c", "#include <event2/event.h>"),
                ("controller/core/a.c", "#include <sqlite3.h>"),
                ("controller/core/a.c", '#include "controller/store/store_sqlite.h"'),
                ("controller/core/a.c", '#include "agent/fwd/fib.h"'),
                ("controller/sync/a.c", "int f(void) { return rand(); }"),
                ("controller/api/a.c", '#include "agent/session/session.h"'),
                ("agent/session/a.c", '#include "controller/core/core.h"'),
                ("agent/fwd/a.c", "#include <rte_mbuf.h>"),
                ("agent/driver/a.c", "#include <rte_ethdev.h>"),
                ("agent/unheard_of/a.c", '#include "controller/core/core.h"')):
            self.assertTrue(breaches({name: text + "\n"}), (name, text))

    def test_a_breach_through_a_header_names_the_way(self):
        found = breaches({
            "controller/core/a.c": '#include "controller/store/store.h"\n',
            "controller/store/store.h": "#include <sqlite3.h>\n"})
        self.assertEqual(len(found), 1)
        self.assertIn("through controller/store/store.h", found[0])


if __name__ == "__main__":
    unittest.main()
