/*
 * festivals: what is done about them when their time comes.
 *
 * All of it follows from the stored objects and the time that ticks bring, so a restart
 * in the middle changes nothing: while one lasts its marks are in force; when it is
 * over its temporary tenants are deleted, again until they are gone, and then the
 * object is marked as done with.
 */
#include "controller/core/core_internal.h"

#include "controller/health/outlook.h"
#include "proto/base/log.h"

#define RETRY_MS                                                                       \
    UINT64_C(10000) /* a delete that was refused: the tenant is moving …             \
                     */
#define LOOK_MS UINT64_C(600000) /* between two looks whether it still fits */

static uint64_t now_s(const struct core *c)
{
    return c->unix_ms / 1000;
}

const struct festival *core_festival_at(const struct core *c, uint32_t index)
{
    return index < c->objects.festival_count ? &c->objects.festivals[index] : NULL;
}

const struct festival *core_festival_find(const struct core *c, const char *name)
{
    return objects_festival(&c->objects, name);
}

enum rc festival_evaluate(const struct core *c, const struct command *cmd,
                          struct err *err)
{
    const struct festival *f = &cmd->festival;
    enum rc rc = festival_check(f, err);
    struct outlook o;

    if (rc || f->is_over) {
        return rc;
    }
    if (f->ends_s <= now_s(c)) {
        return err_field(err, RC_RANGE, "ends", "festival_window",
                         "ends: that time is over");
    }
    if (c->tip_objects.festival_count == FESTIVALS_MAX &&
        !objects_festival(&c->tip_objects, f->name)) {
        return err_field(err, RC_FULL, "name", "list_length",
                         "there are %d festivals already", FESTIVALS_MAX);
    }
    outlook_make(c->health, now_s(c), f, &o);
    if (!o.fits && !cmd->confirm) {
        return err_field(err, RC_CONFLICT, "growth_percent", "festival_does_not_fit",
                         "%s of %s would be at %.1f %%, above critical at %.1f %%: "
                         "confirm it, or make room",
                         o.resource, o.subject, o.percent,
                         f->marks.critical_bp / 100.0);
    }
    return RC_OK;
}

/* ---- while they last ---- */

static bool is_active(const struct core *c, const struct festival *f)
{
    return !f->is_over && f->starts_s <= now_s(c) && now_s(c) < f->ends_s;
}

static uint16_t higher(uint16_t a, uint16_t b)
{
    return a > b ? a : b;
}

/* The marks of all that last, the highest of each; and says so when that changes. */
static void set_marks(struct core *c)
{
    struct level_marks marks = { 0 };
    uint32_t active = 0;

    for (uint32_t i = 0; i < c->objects.festival_count; i++) {
        const struct festival *f = &c->objects.festivals[i];

        if (is_active(c, f)) {
            marks.sale_bp = higher(marks.sale_bp, f->marks.sale_bp);
            marks.safe_bp = higher(marks.safe_bp, f->marks.safe_bp);
            marks.critical_bp = higher(marks.critical_bp, f->marks.critical_bp);
            active++;
        }
    }
    health_raise_marks(c->health, active ? &marks : NULL);
    if (active != c->festivals_active) {
        effect_log(c, LOG_INFO, "festival levels", "festivals=%u in_force=%s", active,
                   active ? "theirs" : "settings");
        c->festivals_active = active;
        place_refresh(c); /* another sale level */
    }
}

/* ---- before them ---- */

static void look_ahead(struct core *c)
{
    for (uint32_t i = 0; i < c->objects.festival_count; i++) {
        const struct festival *f = &c->objects.festivals[i];
        struct outlook o = { .fits = true };

        if (!f->is_over && now_s(c) < f->starts_s) {
            outlook_make(c->health, now_s(c), f, &o);
        }
        health_festival(c->health, now_s(c), f->name, f->marks.critical_bp, &o);
    }
}

/* ---- after them ---- */

static struct blob *delete_tenants(const struct core *c, const struct festival *f)
{
    struct batch_writer w;
    struct blob *ops = NULL;

    batch_writer_init(&w);
    for (unsigned i = 0; i < f->tenant_count; i++) {
        struct entry e = { .table = TABLE_TENANT, .vni = f->tenants[i] };

        if (committed_rows(c, f->tenants[i], TABLE_TENANT)) {
            batch_add_entry(&w, ENTRY_DELETE, &e);
        }
    }
    if (w.entry_count > 0) {
        ops = batch_writer_finish(&w);
    }
    batch_writer_fini(&w);
    return ops;
}

static void end(struct core *c, const struct festival *f)
{
    struct command cmd = { .kind = COMMAND_ENTRIES, .confirm = true };
    struct blob *ops = delete_tenants(c, f);

    memcpy(cmd.who, "festival ", 9);
    memcpy(cmd.who + 9, f->name, strlen(f->name));
    if (ops) {
        cmd.entries.ops = ops;
    } else {
        cmd.kind = COMMAND_PUT_FESTIVAL;
        cmd.festival = *f;
        cmd.festival.is_over = true;
    }
    effect_log(c, LOG_INFO, "festival ends", "festival=%s next=\"%s\"", f->name,
               ops ? "its tenants are deleted" : "done with");
    queue_add(c, &cmd);
    blob_unref(ops);
}

void festivals_tick(struct core *c)
{
    bool must_look = c->festival_look_ms <= c->now_ms;

    if (c->objects.festival_count == 0 && c->festivals_active == 0) {
        return;
    }
    set_marks(c);
    if (must_look) {
        look_ahead(c);
        c->festival_look_ms = c->now_ms + LOOK_MS;
    }
    for (uint32_t i = 0; i < c->objects.festival_count; i++) {
        const struct festival *f = &c->objects.festivals[i];

        if (!f->is_over && f->ends_s <= now_s(c) && c->festival_retry_ms <= c->now_ms) {
            end(c, f);
            c->festival_retry_ms = c->now_ms + RETRY_MS;
            return; /* one after the other */
        }
    }
}

bool festivals_are_open(const struct core *c)
{
    for (uint32_t i = 0; i < c->objects.festival_count; i++) {
        if (!c->objects.festivals[i].is_over) {
            return true;
        }
    }
    return c->festivals_active > 0;
}
