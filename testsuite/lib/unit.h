// SPDX-License-Identifier: Apache-2.0
/* What cmocka wants to have included before it, and cmocka. */
#ifndef CUCOCC_TESTSUITE_UNIT_H
#define CUCOCC_TESTSUITE_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
