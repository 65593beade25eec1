//! `upper` and `lower` letter by letter: `upper('ß')` is `ß`, as PostgreSQL has it, not `SS`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, StringArray};
use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::functions::string;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::scalar::ScalarValue;

/// Both functions.
pub(crate) fn all() -> Vec<ScalarUDF> {
    [(string::upper(), LetterCase::Upper), (string::lower(), LetterCase::Lower)]
        .map(|(engine, case)| ScalarUDF::from(CaseFunction { engine, case }))
        .into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LetterCase {
    Upper,
    Lower,
}

/// The engine's function, which is right for all letters of ASCII.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CaseFunction {
    engine: Arc<ScalarUDF>,
    case: LetterCase,
}

impl ScalarUDFImpl for CaseFunction {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn signature(&self) -> &Signature {
        self.engine.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.engine.return_type(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return self.engine.invoke_with_args(args) };
        let texts = value.cast_to(&DataType::Utf8, None)?.to_array(1)?;
        let texts = texts.as_string::<i32>();
        if texts.is_ascii() {
            return self.engine.invoke_with_args(args);
        }
        let changed = texts.iter().map(|text| text.map(|text| self.case.of(text)));
        let changed: ArrayRef = Arc::new(changed.collect::<StringArray>());
        let changed = match value {
            ColumnarValue::Scalar(_) => ScalarValue::try_from_array(&changed, 0)?.into(),
            ColumnarValue::Array(_) => ColumnarValue::Array(changed),
        };
        changed.cast_to(args.return_type(), None)
    }
}

impl LetterCase {
    fn of(self, text: &str) -> String {
        text.chars().map(|letter| self.of_letter(letter)).collect()
    }

    /// The other case of a letter that has one of a single letter.
    fn of_letter(self, letter: char) -> char {
        let (one, rest) = match self {
            Self::Upper => {
                let mut all = letter.to_uppercase();
                (all.next(), all.next())
            }
            Self::Lower => {
                let mut all = letter.to_lowercase();
                (all.next(), all.next())
            }
        };
        one.filter(|_| rest.is_none()).unwrap_or(letter)
    }
}
