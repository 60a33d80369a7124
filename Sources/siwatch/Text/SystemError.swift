// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The system's text for an error code, by default for the error of the last call.
func systemError(_ code: Int32 = errno) -> String {
    String(cString: strerror(code))
}
