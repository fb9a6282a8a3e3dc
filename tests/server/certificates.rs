//! Certificates of an issuer that exists for one test.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};

/// Who issues certificates.
pub(crate) struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// A file with the issuer's certificate.
    pub(crate) fn trust_store(&self, folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, self.certificate.pem()).expect("written");
        path
    }

    /// A file with a certificate for one name or address, and its key.
    pub(crate) fn key_store(&self, path: &Path, host: &str) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        fs::write(path, certificate.pem() + &key.serialize_pem()).expect("written");
    }
}
