// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The text of a `Date` header: RFC 9110 section 5.6.7. Moments before 1970 become the beginning of 1970.
enum HTTPDate {
    static func text(of moment: Moment) -> String {
        var seconds = time_t(max(0, moment.seconds))
        var parts = tm()
        gmtime_r(&seconds, &parts)
        return String(unsafeUninitializedCapacity: 32) { buffer in
            // In English, because no program here chooses another locale than C's.
            buffer.withMemoryRebound(to: CChar.self) { strftime($0.baseAddress!, $0.count, "%a, %d %b %Y %H:%M:%S GMT", &parts) }
        }
    }
}
