// SPDX-License-Identifier: Apache-2.0
#include "driver/driver.h"

int driver_main(int argc, char **argv) {
  (void)argc;
  (void)argv;
  return DRIVER_USAGE;
}
