//! Parses the expiry and the two names of a certificate: the only fields of X.509 (RFC 5280,
//! section 4.1) that this crate parses.

use porchlight_schema::time::TimestampMs;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The tag `[0]`, constructed, of the version.
const VERSION: u8 = 0xa0;

/// Splits off one DER element: its tag, its content, and the rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let digits = usize::from(first & 0x7f);
        if digits == 0 || digits > 4 {
            return None;
        }
        let (bytes, behind) = rest.split_at_checked(digits)?;
        length = bytes
            .iter()
            .fold(0, |length, &byte| (length << 8) | usize::from(byte));
        rest = behind;
    }
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

fn expect(der: &[u8], expected: u8) -> Option<(&[u8], &[u8])> {
    element(der)
        .filter(|&(tag, _, _)| tag == expected)
        .map(|(_, content, rest)| (content, rest))
}

/// The fields of a certificate that are parsed, as DER without their outer tag.
struct Fields<'c> {
    issuer: &'c [u8],
    validity: &'c [u8],
    subject: &'c [u8],
}

fn fields(certificate: &[u8]) -> Option<Fields<'_>> {
    let (certificate, _) = expect(certificate, SEQUENCE)?;
    let (mut body, _) = expect(certificate, SEQUENCE)?;
    if let Some((_, rest)) = expect(body, VERSION) {
        body = rest;
    }
    let (_serial, body) = expect(body, INTEGER)?;
    let (_algorithm, body) = expect(body, SEQUENCE)?;
    let (issuer, body) = expect(body, SEQUENCE)?;
    let (validity, body) = expect(body, SEQUENCE)?;
    let (subject, _) = expect(body, SEQUENCE)?;
    Some(Fields {
        issuer,
        validity,
        subject,
    })
}

/// Returns whether a certificate names itself as its issuer.
pub(super) fn is_self_signed(certificate: &[u8]) -> bool {
    fields(certificate).is_some_and(|fields| fields.issuer == fields.subject)
}

/// Returns the end of a certificate's validity, or `None` if it cannot be parsed.
pub(super) fn ends_at(certificate: &[u8]) -> Option<TimestampMs> {
    let Fields { validity, .. } = fields(certificate)?;
    let (_, _, not_after) = element(validity)?;
    let (tag, text, _) = element(not_after)?;
    let text = std::str::from_utf8(text).ok()?;
    let text = match tag {
        // Two-digit years from 50 on belong to the last century.
        UTC_TIME => {
            let century = if text.get(..2)? < "50" { "20" } else { "19" };
            format!("{century}{text}")
        }
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| text.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 15)?);
    format!("{year}-{month}-{day}T{hour}:{minute}:{second}")
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expiry_is_read_from_either_time_format() {
        for (year, text) in [
            (2030, "2030-02-03T00:00:00.000Z"),
            (2099, "2099-02-03T00:00:00.000Z"),
        ] {
            let mut params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 2, 3);
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap();
            assert_eq!(ends_at(certificate.der()).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_certificate_that_names_itself_as_its_issuer_is_self_signed() {
        let named = |name| {
            let mut params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
            params
                .distinguished_name
                .push(rcgen::DnType::CommonName, name);
            params
        };
        let key = rcgen::KeyPair::generate().unwrap();
        let own = named("a").self_signed(&key).unwrap();
        assert!(is_self_signed(own.der()));
        let issuer = rcgen::KeyPair::generate().unwrap();
        let issuer = rcgen::CertifiedIssuer::self_signed(named("b"), issuer).unwrap();
        let issued = named("a").signed_by(&key, &issuer).unwrap();
        assert!(!is_self_signed(issued.der()));
        assert!(!is_self_signed(&[]));
    }

    #[test]
    fn an_invalid_certificate_has_no_expiry() {
        let mut der = vec![SEQUENCE, 0x82, 0xff, 0xff];
        for bytes in [
            &[][..],
            &[0x30],
            &[0x30, 0x80],
            &[0x30, 0x85, 1, 1, 1, 1, 1],
            &der,
        ] {
            assert_eq!(ends_at(bytes), None);
        }
        der.extend(std::iter::repeat_n(SEQUENCE, 70_000));
        assert_eq!(ends_at(&der), None);
    }
}
