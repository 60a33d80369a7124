/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The siwatch authors */

#ifndef CLIBPQ_H
#define CLIBPQ_H

#if __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#elif __has_include(<postgresql/libpq-fe.h>)
#include <postgresql/libpq-fe.h>
#elif __has_include("/opt/homebrew/opt/libpq/include/libpq-fe.h")
#include "/opt/homebrew/opt/libpq/include/libpq-fe.h"
#elif __has_include("/usr/local/opt/libpq/include/libpq-fe.h")
#include "/usr/local/opt/libpq/include/libpq-fe.h"
#else
#error "libpq's headers are missing: run `make`, which installs them, or install libpq-dev (Debian), libpq-devel (Fedora) or libpq (Homebrew)"
#endif

/* Why libpq cannot be used on this machine; NULL where it can. It is looked for once, when it is first asked for. */
const char *_Nullable CLibpqProblem(void);

#endif
