/* The commands, a row each.  Help, completion and the parser read this table. */
#include "controller/cli/cmd.h"

#include <stddef.h>

static const char *const kinds[] = { "region",     "policy", "clusters", "nodes",
                                     "tenants",    "routes", "vms",      "acl",
                                     "meter",      "levels", "alarms",   "festivals",
                                     "operations", "audits", "probes",   "consumers",
                                     "steering",   NULL };
static const char *const deletable[] = { "cluster",  "node", "tenant", "route",
                                         "vm",       "acl",  "meter",  "festival",
                                         "consumer", NULL };
static const char *const describable[] = { "region", "policy",    "cluster", "node",
                                           "tenant", "route",     "vm",      "acl",
                                           "meter",  "operation", "audit",   "consumer",
                                           NULL };
static const char *const tops[] = {
    "nodes", "ports", "cores", "flows", "tenants", NULL
};
static const char *const shells[] = { "bash", "zsh", NULL };

static const struct cli_option apply_options[] = {
    { "file", 'f', "FILE", "What to apply; - is stdin." },
    { "dry-run", 0, NULL, "Say what would change, and change nothing." },
    { "confirm", 0, NULL, "A change that deletes much is meant." },
    { NULL, 0, NULL, NULL },
};
static const struct cli_option audit_options[] = {
    { "cluster", 0, "NAME", "The nodes of this cluster." },
    { "node", 0, "NAME", "This node." },
    { "vni", 0, "VNI", "Only the rows of this VNI, on the nodes that hold it." },
    { "report", 0, NULL, "Name what differs, and repair nothing." },
    { "no-wait", 0, NULL, "Begin, and do not look on." },
    { NULL, 0, NULL, NULL },
};
static const struct cli_option probe_options[] = {
    { "cluster", 0, "NAME", "The nodes of this cluster." },
    { "node", 0, "NAME", "This node." },
    { "vni", 0, "VNI",
      "Only what the rows of this VNI say, at the nodes that hold it." },
    { "coverage", 0, NULL, "Name each cell, its probe, or why it has none." },
    { "no-wait", 0, NULL, "Begin, and do not look on." },
    { NULL, 0, NULL, NULL },
};
static const struct cli_option get_options[] = {
    { "limit", 0, "N", "At most so many of a list." },
    { NULL, 0, NULL, NULL },
};
static const struct cli_option top_options[] = {
    { "cluster", 0, "NAME", "Of flows and tenants: only at its nodes." },
    { "node", 0, "NAME", "Of flows and tenants: only at it." },
    { "number", 'n', "N", "Of flows and tenants: at most so many [10]." },
    { NULL, 0, NULL, NULL },
};
static const struct cli_option delete_options[] = {
    { "dry-run", 0, NULL, "Say what would go, and delete nothing." },
    { "confirm", 0, NULL, "That much is meant." },
    { NULL, 0, NULL, NULL },
};
static const struct cli_option import_options[] = {
    { "format", 0, "ndjson|csv", "Else by the file's name or first character." },
    { "confirm", 0, NULL, "A mass delete is meant." },
    { "create-only", 0, NULL, "Refuse to change an entry that is there." },
    { "restart", 0, NULL, "From the start, although this input was seen before." },
    { "retry", 0, "SECONDS", "Come back for so long after a lost connection [30]." },
    { NULL, 0, NULL, NULL },
};
static const struct cli_option trace_options[] = {
    { "vni", 0, "N", "The packet's VNI." },
    { "dst", 0, "IP", "Its inner destination." },
    { "src", 0, "IP", "Its inner source; of the tables only rules ask for it." },
    { "underlay", 0, "v4|v6", "The family that it comes over [the VIP's]." },
    { "live", 0, NULL, "Send it, as a probe, through each node on the way." },
    { NULL, 0, NULL, NULL },
};

static const struct cli_option policy_set_options[] = {
    { "dry-run", 0, NULL, "Check it, and change nothing." },
    { NULL, 0, NULL, NULL },
};

static const struct cli_option move_options[] = {
    { "to", 0, "CLUSTER", "XGW-H or x86; an XGW-H cluster brings what backs it." },
    { "drain-ms", 0, "N", "Keep the source so long after the steering [5000]." },
    { "ignore-steering", 0, NULL,
      "Do not wait for those who steer; may lose packets." },
    { "no-wait", 0, NULL, "Begin it, and do not wait for its end." },
    { "dry-run", 0, NULL, "Check it, and move nothing." },
    { NULL, 0, NULL, NULL },
};

static const struct cli_option build_options[] = {
    { "file", 'f', "FILE", "The cluster, its nodes and its tenants; - is stdin." },
    { "no-wait", 0, NULL, "Begin it, and do not wait for its end." },
    { "dry-run", 0, NULL, "Check it, and begin nothing." },
    { NULL, 0, NULL, NULL },
};

static const struct cli_option drain_options[] = {
    { "to", 0, "CLUSTER", "Of the same kind [each tenant where there is room]." },
    { "drain-ms", 0, "N", "Keep each source so long after the steering [5000]." },
    { "no-wait", 0, NULL, "Begin it, and do not wait for its end." },
    { "dry-run", 0, NULL, "Check it, and move nothing." },
    { NULL, 0, NULL, NULL },
};

static const struct cli_option retire_options[] = {
    { "no-wait", 0, NULL, "Begin it, and do not wait for its end." },
    { "dry-run", 0, NULL, "Check it, and begin nothing." },
    { NULL, 0, NULL, NULL },
};

static const struct cli_option policy_suggest_options[] = {
    { "seconds", 0, "N", "Look at the traffic for so long [5]; 0: do not." },
    { NULL, 0, NULL, NULL },
};

static const struct cli_option proceed_options[] = {
    { "without-consumers", 0, NULL,
      "What steers outside may still send to the source; that may lose packets." },
    { "reason", 0, "TEXT", "Why; it is recorded with who." },
    { NULL, 0, NULL, NULL },
};

static const struct cli_option place_options[] = {
    { "routes", 0, "N", "Routes that it will have; announced, they count at once." },
    { "vms", 0, "N", "VMs." },
    { "bps", 0, "N", "Bits a second." },
    { "pps", 0, "N", "Packets a second." },
    { "name", 0, "TEXT", "Its name." },
    { "peers", 0, "VNI,…", "Of a dry run: tenants that it peers with." },
    { "kind", 0, "x86|xgw-h", "Of a dry run: the kind of its home." },
    { "dry-run", 0, NULL, "Explain the choice, resource by resource; place nothing." },
    { NULL, 0, NULL, NULL },
};

static const struct cli_option rebalance_options[] = {
    { "threshold", 0, "POINTS", "What a cluster must gain to be worth it [5]." },
    { "kind", 0, "x86|xgw-h", "Clusters of this kind [xgw-h]." },
    { "dry-run", 0, NULL, "Propose moves; nothing is moved." },
    { NULL, 0, NULL, NULL },
};

static const struct cli_option explain_options[] = {
    { "v6-share", 0, "PERCENT", "IPv6's share of routes and VM-NC entries [25]." },
    { "routes", 0, "N", "Routes [229294, the paper's]." },
    { "vm-nc", 0, "N", "VM-NC entries [1M]." },
    { "bucket", 0, "B", "Slots of an ALPM partition, 2 to 64 [16]." },
    { "fill", 0, "PERCENT", "Share of the slots that hold a route [87.5: 14 of 16]." },
    { "chip", 0, "NAME", "Another chip [tofino-6.4t]." },
    { "layout", 0, NULL, "Our own image alone, table by table." },
    { NULL, 0, NULL, NULL },
};

static const struct cli_option plan_options[] = {
    { "traffic", 0, "BPS", "Traffic of the region [15T]." },
    { "node", 0, "BPS", "What a gateway carries [3.2T: XGW-H, folded]." },
    { "level", 0, "PERCENT", "Of it that is planned for [50]." },
    { "sides", 0, "1|2", "2: every node has a hot backup [2]." },
    { "ecmp", 0, "N", "Next hops that upstream has for a side [64]." },
    { "x86-share", 0, "PERCENT", "Of the traffic that falls back to XGW-x86 [0.02]." },
    { "x86-level", 0, "PERCENT", "What of an XGW-x86 is planned for [50]." },
    { "lb-node", 0, "BPS", "Count a front LB tier of nodes that carry so much." },
    { "lb-level", 0, "PERCENT", "What of an LB node is planned for [50]." },
    { "node-cost", 0, "USD", "Cost of a node of any kind [10k]." },
    { "history", 0, "FILE",
      "Say when clusters cross their safe level; CSV of "
      "cluster,date,amount,capacity." },
    { "safe", 0, "PERCENT", "That level [80]." },
    { NULL, 0, NULL, NULL },
};

static const struct cli_option calibrate_options[] = {
    { "runs", 0, "N", "Runs, of which the median counts [5]." },
    { "io", 0, "CYCLES", "A packet's cycles in the NIC's driver [84, published]." },
    { "predict", 0, "ENTRIES:HOPS:BURST", "Predict one more." },
    { "save", 0, "FILE", "Write the parameters there." },
    { "params", 0, "FILE", "Measure nothing: parameters that were saved." },
    { "points", 0, "FILE", "Measure nothing: points that were saved." },
    { "save-points", 0, "FILE", "Write what was measured there." },
    { "program", 0, "PATH", "What measures [xgw-calibrate beside xgwctl]." },
    { NULL, 0, NULL, NULL },
};

const struct cli_command cli_commands[] = {
    { "apply", "-f FILE", "Make the region what a YAML file says.", 0, 0, NULL,
      apply_options,
      "  xgwctl apply -f region.yaml --dry-run\n"
      "  xgwctl apply -f region.yaml --wait=applied\n"
      "  xgwctl get nodes -o yaml | sed s/9000/1500/ | xgwctl apply -f -\n",
      cmd_apply },
    { "get",
      "region|policy|clusters|nodes|tenants|routes|vms|acl|meter|levels|festivals|"
      "alarms|"
      "operations|audits|probes|consumers|steering [KEY…]",
      "Show objects, or one of them.", 1, 3, kinds, get_options,
      "  xgwctl get nodes\n"
      "  xgwctl get tenants 100 -o json\n"
      "  xgwctl get routes 100\n"
      "  xgwctl get route 100 10.0.0.0/24 -o yaml\n",
      cmd_get },
    { "describe",
      "region|policy|cluster|node|tenant|route|vm|acl|meter|operation|audit|"
      "consumer [KEY…]",
      "Show one object with all its fields and what belongs to it.", 1, 3, describable,
      NULL,
      "  xgwctl describe cluster x86-1\n"
      "  xgwctl describe tenant 100\n",
      cmd_describe },
    { "delete", "cluster|node|tenant|route|vm|acl|meter|festival|consumer KEY…",
      "Delete an object; one that is not there is no failure.", 2, 3, deletable,
      delete_options,
      "  xgwctl delete vm 100 10.0.0.5\n"
      "  xgwctl delete route 100 10.0.0.0/24 --wait=applied\n"
      "  xgwctl delete acl 100 1000,10.0.0.0/8,0.0.0.0/0,tcp,,443\n"
      "  xgwctl delete tenant 100 --confirm\n",
      cmd_delete },
    { "import", "FILE|-", "Bring in many entries, as NDJSON or CSV.", 1, 1, NULL,
      import_options,
      "  xgwctl import entries.ndjson\n"
      "  xgwctl import --create-only tenants.csv\n"
      "  zcat entries.ndjson.gz | xgwctl import - --wait=applied\n",
      cmd_import },
    { "trace", "--vni N --dst IP", "Explain what happens to a packet, entry by entry.",
      0, 0, NULL, trace_options,
      "  xgwctl trace --vni 100 --dst 10.0.0.5\n"
      "  xgwctl trace --vni 100 --dst 2001:db8::5 -o json\n"
      "  xgwctl trace --vni 100 --dst 10.0.0.5 --live\n",
      cmd_trace },
    { "status", "", "Show the controller's state and its nodes.", 0, 0, NULL, NULL,
      "  xgwctl status\n"
      "  xgwctl status -o json | jq .revision\n",
      cmd_status },
    { "health", "", "Exit 0 if the controller is ready, 1 if not yet, 5 if it is gone.",
      0, 0, NULL, NULL, "  until xgwctl health; do sleep 1; done\n", cmd_health },
    { "capacity explain", "", "Show how the tables come to fit into the chip.", 0, 0,
      NULL, explain_options,
      "  xgwctl capacity explain\n"
      "  xgwctl capacity explain -o json | jq '.steps[] | select(.step == \"alpm\")'\n"
      "  xgwctl capacity explain --routes 400k --vm-nc 2M --v6-share 60 --fill 81\n"
      "  xgwctl capacity explain --layout\n",
      cmd_capacity_explain },
    { "capacity plan", "", "Say how many nodes a region needs, and until when.", 0, 0,
      NULL, plan_options,
      "  xgwctl capacity plan                                     worked examples\n"
      "  xgwctl capacity plan --traffic 40T --level 60 --ecmp 16 -o json\n"
      "  xgwctl capacity plan --traffic 2T --node 100G --x86-share 0 --lb-node 400G\n"
      "  xgwctl capacity plan --history clusters.csv --safe 80\n",
      cmd_capacity_plan },
    { "capacity calibrate", "", "Measure what a packet costs on this machine.", 0, 0,
      NULL, calibrate_options,
      "  xgwctl capacity calibrate\n"
      "  taskset -c 3 xgwctl capacity calibrate --io 60 --save core.json\n"
      "  xgwctl capacity calibrate --params core.json --predict 2000000:1:64\n",
      cmd_capacity_calibrate },
    { "policy get", "", "Show which services XGW-H holds.", 0, 0, NULL, NULL,
      "  xgwctl policy get\n"
      "  xgwctl policy get -o json | jq .services\n",
      cmd_policy_get },
    { "policy set", "SERVICE=xgw-h|xgw-x86|default…",
      "Move services to XGW-H, or leave them to XGW-x86.", 1, CLI_ARGS_MAX, NULL,
      policy_set_options,
      "  xgwctl policy set idc=xgw-x86 --dry-run\n"
      "  xgwctl policy set service=xgw-x86 service:dns=xgw-h --wait=applied\n"
      "  xgwctl policy set idc=default\n",
      cmd_policy_set },
    { "policy suggest", "", "Say which service should be where, and why; move nothing.",
      0, 0, NULL, policy_suggest_options,
      "  xgwctl policy suggest\n"
      "  xgwctl policy suggest --seconds 20\n"
      "  xgwctl policy suggest -o json | jq '.services[] | select(.place != "
      ".suggested)'\n",
      cmd_policy_suggest },
    { "tenant place", "[VNI] [--dry-run]",
      "Create a tenant where there is room for it, or explain where that is.", 0, 1,
      NULL, place_options,
      "  xgwctl tenant place --dry-run --routes 20k --vms 50k --bps 40G\n"
      "  xgwctl tenant place --dry-run --routes 4 --peers 100,200 -o json\n"
      "  xgwctl tenant place 100 --name acme --routes 20k\n",
      cmd_tenant_place },
    { "rebalance", "--dry-run",
      "Propose moves that make the fullest clusters less full.", 0, 0, NULL,
      rebalance_options,
      "  xgwctl rebalance --dry-run\n"
      "  xgwctl rebalance --dry-run --threshold 2 --kind x86 -o json\n",
      cmd_rebalance },
    { "tenant move", "VNI --to CLUSTER",
      "Move a tenant to other clusters without losing a packet.", 1, 1, NULL,
      move_options,
      "  xgwctl tenant move 100 --to h-2\n"
      "  xgwctl tenant move 100 --to x86-2 --drain-ms 30000 --no-wait\n"
      "  xgwctl get operations\n",
      cmd_tenant_move },
    { "cluster build", "-f FILE",
      "Prove a new cluster right step by step, and let tenants in by stages.", 0, 0,
      NULL, build_options,
      "  xgwctl cluster build -f cluster.yaml\n"
      "with cluster.yaml:\n"
      "  clusters: [{name: x86-3, vip_v4: 172.16.255.3}]\n"
      "  nodes:    [{name: gw3, cluster: x86-3, vtep_v4: 172.16.0.13, uplinks: […]}]\n"
      "  build:    {cluster: x86-3, tenants: [100, 101], hold_ms: 60000}\n"
      "  xgwctl operation cancel op-0000000017   takes it back\n",
      cmd_cluster_build },
    { "cluster drain", "NAME", "Move all tenants of a cluster elsewhere.", 1, 1, NULL,
      drain_options,
      "  xgwctl cluster drain h-1\n"
      "  xgwctl cluster drain x86-1 --to x86-2 --no-wait\n",
      cmd_cluster_drain },
    { "cluster retire", "NAME", "Take an empty cluster out of service.", 1, 1, NULL,
      retire_options, "  xgwctl cluster drain h-1 && xgwctl cluster retire h-1\n",
      cmd_cluster_retire },
    { "audit", "[--cluster NAME] [--node NAME] [--vni VNI]",
      "Read nodes back; name what differs from what they should hold, and repair it.",
      0, 0, NULL, audit_options,
      "  xgwctl audit\n"
      "  xgwctl audit --cluster x86-1 --report\n"
      "  xgwctl audit --vni 100\n"
      "  xgwctl get audits\n",
      cmd_audit },
    { "probe", "[--cluster NAME] [--node NAME] [--vni VNI]",
      "Send nodes probes of all that their entries can make of a packet, and compare.",
      0, 0, NULL, probe_options,
      "  xgwctl probe --node gw-1 --coverage\n"
      "  xgwctl probe --cluster h-1\n"
      "  xgwctl get probes\n",
      cmd_probe },
    { "operation cancel", "ID", "Take an operation back, as far as that is safe.", 1, 1,
      NULL, NULL, "  xgwctl operation cancel op-0000000017\n", cmd_operation_cancel },
    { "operation proceed", "ID --without-consumers --reason TEXT",
      "Have a move go on without consumers of steering that do not acknowledge.", 1, 1,
      NULL, proceed_options,
      "  xgwctl get consumers\n"
      "  xgwctl operation proceed op-0000000017 --without-consumers --reason \"vsc-1 "
      "is "
      "gone\"\n",
      cmd_operation_proceed },
    { "top", "[nodes|ports|cores|flows|tenants]",
      "Show what nodes, ports and cores do now, or the heaviest flows and tenants.", 0,
      1, tops, top_options,
      "  xgwctl top\n"
      "  xgwctl top cores\n"
      "  xgwctl top flows --cluster x86-1 -n 20\n"
      "  watch -n 1 xgwctl top ports\n",
      cmd_top },
    { "alarm ack", "ID…", "Say that somebody sees to alarms.", 1, CLI_ARGS_MAX, NULL,
      NULL,
      "  xgwctl get alarms\n"
      "  xgwctl alarm ack 1790000000000\n",
      cmd_alarm_ack },
    { "completion", "bash|zsh", "Print a completion script.", 1, 1, shells, NULL,
      "  source <(xgwctl completion bash)\n"
      "  xgwctl completion zsh > ~/.zfunc/_xgwctl\n",
      cmd_completion },
};

const unsigned cli_command_count = sizeof(cli_commands) / sizeof(cli_commands[0]);
