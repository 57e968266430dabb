/* Sessions with devices: who is let in, what he is told, and what is known of him. */
#include "tests/unit/controller/core/rig.h"

/* A device in the plainest form: it does what it is told and says so. */
struct device {
    struct rig *rig;
    char id[64];
    uint64_t session;
    uint64_t boot_id;
    uint64_t applied;
    uint64_t hello_id;
    bool ready;
    bool is_mute;             /* takes everything, answers nothing */
    uint32_t exceptions;      /* that each ACK lists … */
    uint32_t standing;        /* … so many of them as old ones … */
    uint32_t more_exceptions; /* … and that it only counts */
    uint8_t exception_from;   /* the VMs are 10.x.0.0 and on */
    uint32_t assigns;
    struct ctl_assign assign; /* the last; config by reference */
    struct table_set *tables;
};

static void device_init(struct device *d, struct rig *r, const char *id)
{
    memset(d, 0, sizeof(*d));
    d->rig = r;
    rig_copy(d->id, id);
    d->boot_id = 0xb001;
    d->tables = table_set_new();
}

static void device_fini(struct device *d)
{
    blob_unref(d->assign.config);
    table_set_free(d->tables);
}

static void say(struct device *d, const struct agent_msg *msg)
{
    struct core_in in = { .kind = CORE_SESSION_MSG };

    in.session.id = d->session;
    in.session.device_id = d->id;
    in.session.msg = msg;
    rig_input(d->rig, &in);
}

static struct agent_msg hello_of(struct device *d)
{
    struct agent_msg m = { .kind = AGENT_HELLO };
    const struct tree_node root = { 0 };

    rig_copy(m.hello.device_id, d->id);
    m.hello.device_kind = DEVICE_X86;
    m.hello.boot_id = d->boot_id;
    m.hello.applied = d->applied;
    m.hello.ready = d->ready;
    m.hello.hello_id = ++d->hello_id;
    for (int t = TABLE_VNI; t < TABLE_COUNT; t++) {
        m.hello.root[t] = table_set_digest(d->tables, (enum table_id)t, root);
    }
    return m;
}

static void dial(struct device *d)
{
    static uint64_t next_session = 100;
    struct core_in in = { .kind = CORE_SESSION_OPEN };

    d->session = ++next_session;
    in.session.id = d->session;
    in.session.device_id = d->id;
    rig_input(d->rig, &in);
}

static void hello(struct device *d)
{
    struct agent_msg m = hello_of(d);

    say(d, &m);
}

static void hang_up(struct device *d)
{
    struct core_in in = { .kind = CORE_SESSION_CLOSED };

    in.session.id = d->session;
    in.session.device_id = d->id;
    rig_input(d->rig, &in);
}

static void answer_query(struct device *d, const struct ctl_query *q)
{
    struct agent_msg m = { .kind = AGENT_DIGESTS };

    m.digests.query_id = q->query_id;
    m.digests.item_count = q->item_count;
    m.digests.items = calloc(q->item_count, sizeof(*m.digests.items));
    for (uint32_t i = 0; i < q->item_count; i++) {
        struct digests_item *item = &m.digests.items[i];
        const struct query_item *of = &q->items[i];
        struct digest sub[16];

        item->of = *of;
        if (of->node.depth < TREE_DEPTH) {
            item->child_count = (uint8_t)table_set_children(
                d->tables, (enum table_id)of->table, of->node, item->children);
            continue;
        }
        rows_bucket_digests(
            table_set_rows(d->tables, of->node.vni, (enum table_id)of->table),
            (enum table_id)of->table, of->node.vni, of->bucket, sub);
        for (uint8_t k = 0; k < 16; k++) {
            if (sub[k].count) {
                item->children[item->child_count++] = (struct tree_child){ k, sub[k] };
            }
        }
    }
    say(d, &m);
    free(m.digests.items);
}

static void answer_batch(struct device *d, const struct ctl_batch *b)
{
    struct agent_msg m = { .kind = AGENT_ACK };
    struct exception bad[EXCEPTIONS_MAX];

    /* As many as there are, each of another VM. */
    for (uint32_t i = 0; i < d->exceptions; i++) {
        bad[i] = (struct exception){ EXCEPTION_FULL,
                                     TABLE_VM_NC,
                                     100,
                                     5,
                                     { 4, 10, (uint8_t)d->exception_from,
                                       (uint8_t)(i >> 8), (uint8_t)i } };
    }

    if (b->ops) {
        ck_assert(
            !table_set_apply(d->tables, b->ops->data, b->ops->len, NULL, NULL, NULL));
    }
    d->applied = b->revision ? b->revision : d->applied;
    d->ready = d->ready || b->ready;
    m.ack.seq = b->seq;
    m.ack.applied = d->applied;
    m.ack.ready = d->ready;
    m.ack.exception_count = d->exceptions + d->more_exceptions;
    m.ack.exception_listed = d->exceptions;
    m.ack.standing = d->standing;
    m.ack.exceptions = d->exceptions ? bad : NULL;
    say(d, &m);
}

static void take(struct device *d, const struct ctl_msg *m)
{
    switch (m->kind) {
    case CTL_ASSIGN:
        blob_unref(d->assign.config);
        d->assign = m->assign;
        blob_ref(d->assign.config);
        d->assigns++;
        break;
    case CTL_QUERY:
        if (!d->is_mute) {
            answer_query(d, &m->query);
        }
        break;
    case CTL_BATCH:
        if (!d->is_mute) {
            answer_batch(d, &m->batch);
        }
        break;
    default:
        break;
    }
}

/* Runs core, store and device until all is quiet. */
static void settle(struct device *d)
{
    struct rig *r = d->rig;

    rig_run(r);
    while (r->sent_count > 0) {
        struct ctl_msg m = r->sent[0];
        uint64_t to = r->sent_to[0];

        r->sent_count--;
        memmove(&r->sent[0], &r->sent[1], r->sent_count * sizeof(r->sent[0]));
        memmove(&r->sent_to[0], &r->sent_to[1], r->sent_count * sizeof(uint64_t));
        if (to == d->session) {
            take(d, &m);
        }
        ctl_msg_fini(&m);
        rig_run(r);
    }
}

static struct node_status status(const struct rig *r, const char *node)
{
    struct node_status s;

    ck_assert(!core_node_status(r->core, node, &s));
    return s;
}

static void check_equal(const struct device *d, const char *cluster)
{
    const struct tree_node root = { 0 };

    for (int t = TABLE_VNI; t < TABLE_COUNT; t++) {
        struct digest want = core_group_digest(d->rig->core, cluster, (enum table_id)t);
        struct digest have = table_set_digest(d->tables, (enum table_id)t, root);

        ck_assert_msg(want.sum == have.sum && want.count == have.count, "table %s",
                      table_name((enum table_id)t));
    }
}

#define TENANT "{\"table\":\"tenant\",\"vni\":100,\"cluster\":\"c1\"}\n"
#define VM                                                                             \
    "{\"table\":\"vm_nc\",\"vni\":100,\"vm\":\"10.0.0.5\",\"nc\":\"172.16.1.1\"}\n"
#define VM2                                                                            \
    "{\"table\":\"vm_nc\",\"vni\":100,\"vm\":\"10.0.0.6\",\"nc\":\"172.16.1.1\"}\n"
#define OTHER "{\"table\":\"tenant\",\"vni\":200,\"cluster\":\"c2\"}\n"

static struct rig *region(void)
{
    struct rig *r = rig_new();

    rig_cluster(r, "c1", "172.16.255.1");
    rig_cluster(r, "c2", "172.16.255.2");
    rig_node(r, "gw-1", "c1", "172.16.0.1");
    rig_node(r, "gw-2", "c1", "172.16.0.2");
    rig_must(r, TENANT VM OTHER);
    return r;
}

START_TEST(a_device_is_assigned_downloads_its_groups_set_and_is_online)
{
    struct rig *r = region();
    struct device d;
    struct device_config config;

    device_init(&d, r, "gw-1");
    ck_assert_int_eq(status(r, "gw-1").state, NODE_JOINING);
    dial(&d);
    hello(&d);
    settle(&d);
    ck_assert_uint_eq(d.assign.hello_id, 1);
    ck_assert_uint_eq(d.assign.term, r->config.term);
    ck_assert_str_eq(d.assign.group, "c1");
    ck_assert(!device_config_unpack(d.assign.config->data, d.assign.config->len,
                                    &config, NULL));
    ck_assert_str_eq(config.node, "gw-1");
    ck_assert_uint_eq(config.vip_v4.b[3], 1);
    check_equal(&d, "c1");
    ck_assert_int_eq(status(r, "gw-1").state, NODE_ONLINE);
    ck_assert(status(r, "gw-1").in_sync);
    ck_assert_ptr_nonnull(strstr(r->logs, "to=online"));
    /* Changes follow; what belongs to another cluster does not. */
    rig_must(r, VM2);
    rig_must(r, "{\"table\":\"tenant\",\"vni\":201,\"cluster\":\"c2\"}");
    settle(&d);
    check_equal(&d, "c1");
    ck_assert_uint_eq(d.applied, core_revision(r->core) - 1);
    ck_assert(status(r, "gw-1").in_sync);
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(who_does_not_belong_here_is_turned_away_with_the_reason)
{
    static const struct {
        const char *id, *says;
        uint8_t kind;
        uint64_t term;
        enum rc rc;
    } guests[] = {
        { "gw-9", "gw-9", DEVICE_X86, 0, RC_NOT_FOUND },
        { "gw-1", "gw-2", DEVICE_X86, 0, RC_DENIED },
        { "gw-1", "gw-1", 77, 0, RC_CONFLICT },
        { "gw-1", "gw-1", DEVICE_X86, 99, RC_STALE },
    };
    struct rig *r = region();

    for (unsigned i = 0; i < ARRAY_LEN(guests); i++) {
        struct device d;
        struct agent_msg m;

        device_init(&d, r, guests[i].id);
        dial(&d);
        m = hello_of(&d);
        rig_copy(m.hello.device_id, guests[i].says);
        m.hello.device_kind = guests[i].kind;
        m.hello.term_seen = guests[i].term;
        say(&d, &m);
        ck_assert_uint_eq(r->closed_count, i + 1);
        ck_assert_uint_eq(r->closed[i], d.session);
        ck_assert_int_eq(r->closed_why[i].code, guests[i].rc);
        ck_assert_uint_gt(strlen(r->closed_why[i].msg), 10);
        device_fini(&d);
    }
    ck_assert_int_eq(status(r, "gw-1").state, NODE_JOINING);
    rig_free(r);
}
END_TEST

START_TEST(a_session_that_does_not_begin_with_hello_ends)
{
    struct rig *r = region();
    struct agent_msg ack = { .kind = AGENT_ACK };
    struct device d;

    device_init(&d, r, "gw-1");
    dial(&d);
    say(&d, &ack);
    ck_assert_uint_eq(r->closed_count, 1);
    ck_assert_int_eq(r->closed_why[0].code, RC_INVALID);
    dial(&d);
    rig_wait(r, r->config.session_timeout_ms - 1);
    ck_assert_uint_eq(r->closed_count, 1);
    rig_wait(r, 1);
    ck_assert_uint_eq(r->closed_count, 2);
    ck_assert_int_eq(r->closed_why[1].code, RC_TIMEOUT);
    /* An answer to nothing that was asked. */
    dial(&d);
    hello(&d);
    ack.ack.seq = 1000;
    say(&d, &ack);
    ck_assert_uint_eq(r->closed_count, 3);
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(a_lost_session_makes_suspect_and_a_reconnect_heals_without_a_write)
{
    struct rig *r = region();
    struct device d;

    device_init(&d, r, "gw-1");
    dial(&d);
    hello(&d);
    settle(&d);
    hang_up(&d);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_SUSPECT);
    ck_assert(!status(r, "gw-1").in_sync);
    ck_assert_ptr_nonnull(strstr(r->logs, "to=suspect"));
    dial(&d);
    hello(&d);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_ONLINE);
    rig_run(r);
    ck_assert_uint_eq(r->sent_count, 1); /* the ASSIGN; nothing differs */
    ck_assert(status(r, "gw-1").in_sync);
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(silence_makes_suspect_and_a_word_heals)
{
    struct rig *r = region();
    struct core_in in = { .kind = CORE_LIVENESS,
                          .liveness = { .device_id = "gw-1", .is_silent = true } };
    struct device d;

    device_init(&d, r, "gw-1");
    rig_input(r, &in); /* of one that never joined: nothing */
    ck_assert_int_eq(status(r, "gw-1").state, NODE_JOINING);
    in.liveness.is_silent = false;
    rig_input(r, &in);
    dial(&d);
    hello(&d);
    settle(&d);
    in.liveness.is_silent = true;
    rig_input(r, &in);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_SUSPECT);
    ck_assert(status(r, "gw-1").has_session);
    in.liveness.is_silent = false;
    rig_input(r, &in);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_ONLINE);
    device_fini(&d);
    rig_free(r);
}
END_TEST

static unsigned occurrences(const char *text, const char *what)
{
    unsigned count = 0;

    for (; (text = strstr(text, what)); text++) {
        count++;
    }
    return count;
}

START_TEST(losing_most_nodes_at_once_is_one_alarm_about_the_controller)
{
    struct rig *r = region();
    struct device d[4];
    static const char *const names[] = { "gw-1", "gw-2", "gw-3", "gw-4" };

    rig_node(r, "gw-3", "c2", "172.16.0.3");
    rig_node(r, "gw-4", "c2", "172.16.0.4");
    for (int i = 0; i < 4; i++) {
        device_init(&d[i], r, names[i]);
        dial(&d[i]);
        hello(&d[i]);
        settle(&d[i]);
    }
    for (int i = 0; i < 4; i++) {
        hang_up(&d[i]);
    }
    ck_assert_uint_eq(occurrences(r->logs, "to=suspect"), 2);
    ck_assert_uint_eq(occurrences(r->logs, "suspects itself"), 1);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(status(r, names[i]).state, NODE_SUSPECT);
    }
    for (int i = 0; i < 4; i++) {
        dial(&d[i]);
        hello(&d[i]);
        settle(&d[i]);
        device_fini(&d[i]);
    }
    ck_assert_uint_eq(occurrences(r->logs, "sees its nodes again"), 1);
    rig_free(r);
}
END_TEST

START_TEST(a_new_data_plane_is_offline_until_it_holds_everything)
{
    struct rig *r = region();
    struct device d;

    device_init(&d, r, "gw-1");
    dial(&d);
    hello(&d);
    settle(&d);
    /* It died: the agent says so on the same session, and again when one is back. */
    d.boot_id = 0;
    d.ready = false;
    hello(&d);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_OFFLINE);
    table_set_free(d.tables);
    d.tables = table_set_new();
    d.boot_id = 0xb002;
    d.applied = 0;
    hello(&d);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_OFFLINE);
    settle(&d);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_ONLINE);
    ck_assert_uint_eq(status(r, "gw-1").boot_id, 0xb002);
    check_equal(&d, "c1");
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(a_second_session_of_one_device_takes_the_place_of_the_first)
{
    struct rig *r = region();
    struct device d;
    uint64_t first;

    device_init(&d, r, "gw-1");
    dial(&d);
    hello(&d);
    settle(&d);
    first = d.session;
    dial(&d);
    ck_assert_uint_eq(r->closed_count, 0); /* not before it has shown who it is */
    hello(&d);
    ck_assert_uint_eq(r->closed_count, 1);
    ck_assert_uint_eq(r->closed[0], first);
    ck_assert_int_eq(status(r, "gw-1").state, NODE_ONLINE);
    settle(&d);
    ck_assert(status(r, "gw-1").in_sync);
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(a_changed_configuration_is_pushed_and_only_where_it_changed)
{
    struct rig *r = region();
    struct command cmd = { .kind = COMMAND_PUT_REGION };
    struct region *reg = calloc(1, sizeof(*reg));
    struct device_config config;
    struct device d;

    device_init(&d, r, "gw-1");
    dial(&d);
    hello(&d);
    settle(&d);
    rig_cluster(r, "c2", "172.16.255.3");
    rig_node(r, "gw-2", "c1", "172.16.0.22");
    settle(&d);
    ck_assert_uint_eq(d.assigns, 1);
    rig_cluster(r, "c1", "172.16.255.9");
    settle(&d);
    ck_assert_uint_eq(d.assigns, 2);
    ck_assert_uint_eq(d.assign.hello_id, 1);
    rig_copy(reg->name, "lab");
    reg->icmp_source_v4 = ip_v4(0xac10fffe);
    cmd.region = reg;
    ck_assert_int_eq(rig_command(r, &cmd)->err.code, RC_OK);
    settle(&d);
    ck_assert_uint_eq(d.assigns, 3);
    ck_assert(!device_config_unpack(d.assign.config->data, d.assign.config->len,
                                    &config, NULL));
    ck_assert_uint_eq(config.vip_v4.b[3], 9);
    ck_assert_uint_eq(config.icmp_source_v4.b[3], 0xfe);
    /* Another cluster is another set: it dials again. */
    rig_node(r, "gw-1", "c2", "172.16.0.1");
    ck_assert_uint_eq(r->closed_count, 1);
    device_fini(&d);
    free(reg);
    rig_free(r);
}
END_TEST

static uint64_t wait_for(struct rig *r, uint64_t revision, uint64_t ms)
{
    struct command cmd = { .kind = COMMAND_WAIT, .token = ++r->next_token };
    struct core_in in = { .kind = CORE_COMMAND, .command = &cmd };

    cmd.wait.revision = revision;
    cmd.wait.deadline_ms = r->now_ms + ms;
    rig_input(r, &in);
    return cmd.token;
}

START_TEST(a_wait_ends_when_all_online_nodes_have_it)
{
    struct rig *r = region();
    struct device d;
    uint64_t token;

    device_init(&d, r, "gw-1");
    token = wait_for(r, core_revision(r->core), 5000);
    ck_assert_ptr_null(rig_reply(r, token)); /* nobody has it: none is online */
    dial(&d);
    hello(&d);
    settle(&d);
    ck_assert_ptr_nonnull(rig_reply(r, token));
    ck_assert(rig_reply(r, token)->applied);
    rig_must(r, VM2);
    token = wait_for(r, core_revision(r->core), 5000);
    ck_assert_ptr_null(rig_reply(r, token));
    settle(&d);
    ck_assert(rig_reply(r, token)->applied);
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(a_wait_at_its_deadline_names_who_is_missing)
{
    struct rig *r = region();
    struct device d;
    uint64_t token;

    device_init(&d, r, "gw-1");
    token = wait_for(r, core_revision(r->core), 500);
    rig_pass(r, 500);
    ck_assert(!rig_reply(r, token)->applied);
    ck_assert_int_eq(rig_reply(r, token)->err.code, RC_OK);
    ck_assert_str_eq(rig_reply(r, token)->missing, "gw-1,gw-2");
    dial(&d);
    hello(&d);
    settle(&d);
    d.is_mute = true;
    rig_must(r, VM2);
    token = wait_for(r, core_revision(r->core), 500);
    settle(&d);
    rig_pass(r, 500);
    ck_assert_str_eq(rig_reply(r, token)->missing, "gw-1");
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(a_wait_fails_with_the_exception_that_its_change_met)
{
    struct rig *r = region();
    struct device d;
    uint64_t token;

    device_init(&d, r, "gw-1");
    dial(&d);
    hello(&d);
    settle(&d);
    d.exceptions = 1;
    rig_must(r, VM2);
    token = wait_for(r, core_revision(r->core), 5000);
    settle(&d);
    ck_assert_ptr_nonnull(rig_reply(r, token));
    ck_assert_int_eq(rig_reply(r, token)->err.code, RC_FULL);
    ck_assert_ptr_nonnull(strstr(rig_reply(r, token)->err.msg, "gw-1"));
    ck_assert_ptr_nonnull(strstr(rig_reply(r, token)->err.msg, "vm_nc"));
    ck_assert_ptr_nonnull(strstr(rig_reply(r, token)->err.msg, "10.0.0.0 "));
    ck_assert(!status(r, "gw-1").in_sync);
    ck_assert_uint_eq(status(r, "gw-1").exception_count, 1);
    device_fini(&d);
    rig_free(r);
}
END_TEST

/* A list once full, of entries that stood for long, must not make a wait succeed for
 * what the device has just refused. */
START_TEST(a_wait_fails_also_where_more_exceptions_stand_than_are_listed)
{
    struct rig *r = region();
    struct device d;
    uint64_t token;

    device_init(&d, r, "gw-1");
    dial(&d);
    hello(&d);
    settle(&d);
    d.exceptions = EXCEPTIONS_MAX;
    d.more_exceptions = 500;
    rig_must(r, VM2);
    settle(&d);
    ck_assert_uint_eq(status(r, "gw-1").exception_count, EXCEPTIONS_MAX + 500);
    d.exceptions = 1;
    d.more_exceptions = EXCEPTIONS_MAX + 500;
    d.exception_from = 7;
    rig_must(r, "{\"table\":\"vm_nc\",\"vni\":100,\"vm\":\"10.7.0.0\","
                "\"nc\":\"10.1.0.9\"}");
    token = wait_for(r, core_revision(r->core), 5000);
    settle(&d);
    ck_assert_ptr_nonnull(rig_reply(r, token));
    ck_assert_int_eq(rig_reply(r, token)->err.code, RC_FULL);
    ck_assert_ptr_nonnull(strstr(rig_reply(r, token)->err.msg, "10.7.0.0 "));
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(exceptions_that_healed_are_shown_no_longer)
{
    struct rig *r = region();
    struct device d;

    device_init(&d, r, "gw-1");
    dial(&d);
    hello(&d);
    settle(&d);
    d.exceptions = 5;
    rig_must(r, VM2);
    settle(&d);
    ck_assert_uint_eq(status(r, "gw-1").exception_listed, 5);
    d.exceptions = 2;
    d.standing = 2;
    rig_must(r, "{\"table\":\"tenant\",\"vni\":300,\"cluster\":\"c1\"}");
    settle(&d);
    ck_assert_uint_eq(status(r, "gw-1").exception_count, 2);
    ck_assert_uint_eq(status(r, "gw-1").exception_listed, 2);
    device_fini(&d);
    rig_free(r);
}
END_TEST

START_TEST(a_device_that_does_not_answer_loses_its_session_but_not_for_our_own_lateness)
{
    struct rig *r = region();
    struct device d;

    device_init(&d, r, "gw-1");
    d.is_mute = true;
    dial(&d);
    hello(&d);
    settle(&d);
    rig_pass(r, r->config.session_timeout_ms + 10000); /* we slept for 10 s */
    ck_assert_uint_eq(r->closed_count, 0);
    rig_wait(r, r->config.session_timeout_ms);
    ck_assert_uint_eq(r->closed_count, 1);
    ck_assert_int_eq(r->closed_why[0].code, RC_TIMEOUT);
    device_fini(&d);
    rig_free(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("devices");

    tcase_add_test(tc, a_device_is_assigned_downloads_its_groups_set_and_is_online);
    tcase_add_test(tc, who_does_not_belong_here_is_turned_away_with_the_reason);
    tcase_add_test(tc, a_session_that_does_not_begin_with_hello_ends);
    tcase_add_test(tc,
                   a_lost_session_makes_suspect_and_a_reconnect_heals_without_a_write);
    tcase_add_test(tc, silence_makes_suspect_and_a_word_heals);
    tcase_add_test(tc, losing_most_nodes_at_once_is_one_alarm_about_the_controller);
    tcase_add_test(tc, a_new_data_plane_is_offline_until_it_holds_everything);
    tcase_add_test(tc, a_second_session_of_one_device_takes_the_place_of_the_first);
    tcase_add_test(tc, a_changed_configuration_is_pushed_and_only_where_it_changed);
    tcase_add_test(tc, a_wait_ends_when_all_online_nodes_have_it);
    tcase_add_test(tc, a_wait_at_its_deadline_names_who_is_missing);
    tcase_add_test(tc, a_wait_fails_with_the_exception_that_its_change_met);
    tcase_add_test(tc, a_wait_fails_also_where_more_exceptions_stand_than_are_listed);
    tcase_add_test(tc, exceptions_that_healed_are_shown_no_longer);
    tcase_add_test(
        tc,
        a_device_that_does_not_answer_loses_its_session_but_not_for_our_own_lateness);
    return unit_run("devices", tc);
}
