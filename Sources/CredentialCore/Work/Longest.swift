// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The longest accepted texts, in bytes: many times as long as Apple's. Longer texts were not meant.
package enum Longest {
    package static let identifier = 512
    package static let token = 8192
    package static let address = 1024
    package static let uri = 2048
}
