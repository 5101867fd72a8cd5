/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the folder of a path.
 */
#include <stdio.h>
#include <string.h>

#include "command/file.h"

void path_folder(char folder[PATH_MAX], const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		strcpy(folder, ".");
	else
		snprintf(folder, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}
