// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

extension String {
    /// As a basic string of TOML, which has all escapes of JSON.
    var quotedForTOML: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        return String(decoding: (try? encoder.encode(self)) ?? Data(), as: UTF8.self)
    }
}
