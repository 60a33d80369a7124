// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

enum Version {
    static let current = "0.1.0"
}
