// SPDX-License-Identifier: Apache-2.0
/* The files of our own that come with the program: frontend/include, emulator/include, backend/runtime. */
#ifndef CUCOCC_DRIVER_RESOURCES_H
#define CUCOCC_DRIVER_RESOURCES_H

/* The path of NAME below the folder that holds them: $CUCOCC_RESOURCE_DIR, else share/cucocc beside the
 * program's own folder, else the source folder of the build. Returns a malloc'ed path, or NULL when there is
 * no such file. */
char *resources_find(const char *name);

#endif
