// SPDX-License-Identifier: Apache-2.0
/* What --report writes. */
#ifndef CUCOCC_DRIVER_REPORT_H
#define CUCOCC_DRIVER_REPORT_H

#include "driver/pipeline.h"

/* {"version": 1, "input": ..., "summary": {...}, "regions": [one directive each, with call, place and reason],
 * "diagnostics": {"errors": n, "warnings": n}} as text to free(). */
char *report_json(const struct pipeline *p, const struct diag_engine *diag);

#endif
