// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A moment by its number alone: most rules only ask which of two is greater.
func at(_ milliseconds: Int64) -> Timestamp {
    Timestamp(milliseconds: milliseconds)
}
