/*
 * fwdh_tables - a software switch filled from a file of lines, as tests/reference's
 * physical.py writes them:
 *
 *   udp6_zero_csum 0|1
 *   port INDEX MAC MTU ADDRESS4 NEXT_HOP4 ADDRESS6 NEXT_HOP6     ("-": none)
 *   row HALF TABLE ACTION PRIORITY KEY MASK DATA                 (hex; "-": empty)
 *   meter HALF NAME INDEX CIR CBURST PIR PBURST
 *
 * Ports come first.
 */
#pragma once

#include "agent/fwdh/switch.h"

/* Gives a switch of the Tofino's size with one worker that is online; RC_INVALID with
 * the line's number when a line is refused. */
enum rc fwdh_tables_load(const char *path, struct hswitch **ret, struct err *err);
