// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The files of the repository that these tests were built from.
enum Checkout {
    static let root = URL(filePath: #filePath).appending(path: "../../../..").standardized
}
