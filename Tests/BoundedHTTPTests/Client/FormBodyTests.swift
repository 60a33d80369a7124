// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@testable import BoundedHTTP

@Suite struct FormBodyTests {
    @Test func encodesFieldsInTheirOrder() {
        let form: FormBody = ["a": Secret("1&2"), "b": Secret(""), "c": Secret("é -")]
        #expect(String(decoding: form.encoded, as: UTF8.self) == "a=1%262&b=&c=%C3%A9%20-")
    }
}
