// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A user that Apple does not know. The id has the shape of Apple's.
func stranger(_ number: Int) -> String {
    let digits = "\(number)"
    return "000000.\(String(repeating: "0", count: 32 - digits.count))\(digits).0000"
}
