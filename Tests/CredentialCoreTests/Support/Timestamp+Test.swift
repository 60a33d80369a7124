// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A moment by its number alone, because most rules only compare moments.
func at(_ milliseconds: Int64) -> Timestamp {
    Timestamp(milliseconds: milliseconds)
}
