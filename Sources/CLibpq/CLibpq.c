/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The siwatch authors */

/* libpq is loaded when it is first needed: who stays with SQLite needs none of it, nor the some twenty libraries that it brings with it. Each
 * function below has libpq's own name and passes its call on. */

#include "CLibpq.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const libraries[] = {
#if __APPLE__
    "libpq.5.dylib",
    /* Homebrew keeps it to itself. */
    "/opt/homebrew/opt/libpq/lib/libpq.5.dylib",
    "/usr/local/opt/libpq/lib/libpq.5.dylib",
#else
    "libpq.so.5",
#endif
};

/* What came with release 14. */
#define YOUNGEST "PQpipelineSync"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *library;
static char problem[512];

static void load(void) {
    for (size_t i = 0; !library && i < sizeof libraries / sizeof *libraries; i++) library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(problem, sizeof problem, "libpq is missing (Debian: libpq5): %s", dlerror());
    } else if (!dlsym(library, YOUNGEST)) {
        snprintf(problem, sizeof problem, "libpq 14 or newer is needed, and the one of this machine is older");
    }
}

const char *CLibpqProblem(void) {
    pthread_once(&once, load);
    return problem[0] ? problem : NULL;
}

static void *find(const char *name) {
    if (CLibpqProblem()) {
        fprintf(stderr, "%s was called though %s\n", name, problem);
        abort();
    }
    return dlsym(library, name);
}

#define FORWARD(result, name, parameters, arguments)                        \
    result name parameters {                                                \
        static _Atomic(void *) address;                                     \
        void *function = address;                                           \
        if (!function) address = function = find(#name);                    \
        return ((result(*) parameters)function) arguments;                  \
    }

/* Connections */
FORWARD(PGconn *, PQconnectdb, (const char *text), (text))
FORWARD(PGconn *, PQconnectdbParams, (const char *const *words, const char *const *values, int expand), (words, values, expand))
FORWARD(PQconninfoOption *, PQconninfoParse, (const char *text, char **problem), (text, problem))
FORWARD(void, PQconninfoFree, (PQconninfoOption *options), (options))
FORWARD(int, PQconnectionNeedsPassword, (const PGconn *connection), (connection))
FORWARD(int, PQconnectionUsedPassword, (const PGconn *connection), (connection))
FORWARD(void, PQfinish, (PGconn *connection), (connection))
FORWARD(void, PQreset, (PGconn *connection), (connection))
FORWARD(ConnStatusType, PQstatus, (const PGconn *connection), (connection))
FORWARD(PGTransactionStatusType, PQtransactionStatus, (const PGconn *connection), (connection))
FORWARD(char *, PQerrorMessage, (const PGconn *connection), (connection))
FORWARD(int, PQsocket, (const PGconn *connection), (connection))
FORWARD(int, PQbackendPID, (const PGconn *connection), (connection))
FORWARD(PQnoticeProcessor, PQsetNoticeProcessor, (PGconn *connection, PQnoticeProcessor body, void *context), (connection, body, context))
FORWARD(PGVerbosity, PQsetErrorVerbosity, (PGconn *connection, PGVerbosity verbosity), (connection, verbosity))
FORWARD(int, PQsetnonblocking, (PGconn *connection, int value), (connection, value))
FORWARD(int, PQlibVersion, (void), ())
FORWARD(PGPing, PQping, (const char *text), (text))

/* Statements */
FORWARD(PGresult *, PQexec, (PGconn *connection, const char *sql), (connection, sql))
FORWARD(PGresult *, PQexecParams,
        (PGconn *connection, const char *sql, int count, const Oid *types, const char *const *values, const int *lengths,
         const int *formats, int format),
        (connection, sql, count, types, values, lengths, formats, format))
FORWARD(PGresult *, PQprepare, (PGconn *connection, const char *name, const char *sql, int count, const Oid *types),
        (connection, name, sql, count, types))
FORWARD(PGresult *, PQexecPrepared,
        (PGconn *connection, const char *name, int count, const char *const *values, const int *lengths, const int *formats, int format),
        (connection, name, count, values, lengths, formats, format))
FORWARD(int, PQsendPrepare, (PGconn *connection, const char *name, const char *sql, int count, const Oid *types),
        (connection, name, sql, count, types))
FORWARD(int, PQsendQueryPrepared,
        (PGconn *connection, const char *name, int count, const char *const *values, const int *lengths, const int *formats, int format),
        (connection, name, count, values, lengths, formats, format))
FORWARD(int, PQenterPipelineMode, (PGconn *connection), (connection))
FORWARD(int, PQexitPipelineMode, (PGconn *connection), (connection))
FORWARD(int, PQpipelineSync, (PGconn *connection), (connection))
FORWARD(int, PQflush, (PGconn *connection), (connection))
FORWARD(int, PQconsumeInput, (PGconn *connection), (connection))
FORWARD(int, PQisBusy, (PGconn *connection), (connection))
FORWARD(PGresult *, PQgetResult, (PGconn *connection), (connection))
FORWARD(PGnotify *, PQnotifies, (PGconn *connection), (connection))
FORWARD(void, PQfreemem, (void *memory), (memory))

/* COPY */
FORWARD(int, PQputCopyData, (PGconn *connection, const char *bytes, int count), (connection, bytes, count))
FORWARD(int, PQputCopyEnd, (PGconn *connection, const char *problem), (connection, problem))
FORWARD(int, PQgetCopyData, (PGconn *connection, char **bytes, int async), (connection, bytes, async))

/* Results */
FORWARD(ExecStatusType, PQresultStatus, (const PGresult *result), (result))
FORWARD(char *, PQresultErrorMessage, (const PGresult *result), (result))
FORWARD(char *, PQresultErrorField, (const PGresult *result, int field), (result, field))
FORWARD(int, PQntuples, (const PGresult *result), (result))
FORWARD(int, PQnfields, (const PGresult *result), (result))
FORWARD(char *, PQfname, (const PGresult *result, int column), (result, column))
FORWARD(Oid, PQftype, (const PGresult *result, int column), (result, column))
FORWARD(char *, PQgetvalue, (const PGresult *result, int row, int column), (result, row, column))
FORWARD(int, PQgetlength, (const PGresult *result, int row, int column), (result, row, column))
FORWARD(int, PQgetisnull, (const PGresult *result, int row, int column), (result, row, column))
FORWARD(char *, PQcmdTuples, (PGresult *result), (result))
FORWARD(void, PQclear, (PGresult *result), (result))
