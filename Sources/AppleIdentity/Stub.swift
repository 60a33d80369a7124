import JWTKit
import CryptoExtras
