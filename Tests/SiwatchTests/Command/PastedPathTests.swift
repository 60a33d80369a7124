// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Testing

@testable import siwatch

struct PastedPathTests {
    @Test func aDraggedFileLosesItsQuotes() {
        for pasted in ["/keys/Auth Key.p8", "'/keys/Auth Key.p8'", "\"/keys/Auth Key.p8\"", "/keys/./old/../Auth Key.p8"] {
            #expect(pasted.pastedPath(homeBehindSudo: nil) == "/keys/Auth Key.p8")
        }
        #expect("'".pastedPath(homeBehindSudo: nil).hasSuffix("/'"))
    }

    /// Under sudo the home is root's, and the key lies in that of the person who typed it.
    @Test func aTildeUnderSudoMeansThePersonsHome() throws {
        let home = try TemporaryFolder()
        try Data().write(to: URL(filePath: "\(home.path)/key.p8"))
        #expect("~/key.p8".pastedPath(homeBehindSudo: home.path) == "\(home.path)/key.p8")
        #expect("'~/key.p8'".pastedPath(homeBehindSudo: home.path) == "\(home.path)/key.p8")

        let own = NSString(string: "~").expandingTildeInPath
        #expect("~/key-of-nobody.p8".pastedPath(homeBehindSudo: home.path) == "\(own)/key-of-nobody.p8")
        #expect("~/key.p8".pastedPath(homeBehindSudo: nil) == "\(own)/key.p8")
        #expect("/~/key.p8".pastedPath(homeBehindSudo: home.path) == "/~/key.p8")
    }
}
