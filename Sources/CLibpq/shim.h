/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The siwatch authors */

#if !__has_include(<libpq-fe.h>)
#error "libpq's headers are missing: run `make`, which installs them, or install libpq-dev (Debian), libpq-devel (Fedora) or postgresql (Homebrew)"
#endif
#include <libpq-fe.h>
