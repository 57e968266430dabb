/* cmd - the functions behind the rows of cli_commands.c; each prints its result. */
#pragma once

#include "controller/cli/cli.h"

enum cli_exit cmd_alarm_ack(struct cli *cli);
enum cli_exit cmd_apply(struct cli *cli);
enum cli_exit cmd_capacity_calibrate(struct cli *cli);
enum cli_exit cmd_capacity_explain(struct cli *cli);
enum cli_exit cmd_capacity_plan(struct cli *cli);
enum cli_exit cmd_completion(struct cli *cli);
enum cli_exit cmd_audit(struct cli *cli);
enum cli_exit cmd_cluster_build(struct cli *cli);
enum cli_exit cmd_cluster_drain(struct cli *cli);
enum cli_exit cmd_cluster_retire(struct cli *cli);
enum cli_exit cmd_probe(struct cli *cli);
enum cli_exit cmd_operation_cancel(struct cli *cli);
enum cli_exit cmd_operation_proceed(struct cli *cli);
enum cli_exit cmd_policy_get(struct cli *cli);
enum cli_exit cmd_policy_set(struct cli *cli);
enum cli_exit cmd_policy_suggest(struct cli *cli);
enum cli_exit cmd_delete(struct cli *cli);
enum cli_exit cmd_describe(struct cli *cli);
enum cli_exit cmd_get(struct cli *cli);
enum cli_exit cmd_health(struct cli *cli);
enum cli_exit cmd_import(struct cli *cli);
enum cli_exit cmd_rebalance(struct cli *cli);
enum cli_exit cmd_status(struct cli *cli);
enum cli_exit cmd_tenant_move(struct cli *cli);
enum cli_exit cmd_tenant_place(struct cli *cli);
enum cli_exit cmd_top(struct cli *cli);
enum cli_exit cmd_top_heaviest(struct cli *cli);
enum cli_exit cmd_trace(struct cli *cli);
