// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Classes of ASCII characters, whatever Unicode thinks of others.
extension UInt8 {
    var isDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }
    var isCapital: Bool { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(self) }
    var isLetterOrDigit: Bool { isDigit || isCapital || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self) }
}
