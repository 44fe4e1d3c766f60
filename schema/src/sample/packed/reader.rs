//! Reads packed batches without an allocation per sample.

use super::column::{AT_ONCE, ColumnReader, Cursor, OptionalReader, Rooms};
use super::{Head, PackedError};
use crate::limits::IMU_VALUES_MAX;
use crate::sample::check::{self, Field};
use crate::sample::{
    Activity, ActivityType, Imu, Kind, Location, Magnetic, Mark, Motion, Pressure, Provider,
    Sample, Steps, System, SystemName,
};

/// Reads the samples of a packed batch in their order.
///
/// It lends each sample ([`BatchReader::next_sample`]), because the arrays of an `imu` sample live
/// in a buffer that the next one overwrites.
#[derive(Debug, Default)]
pub struct BatchReader<'a> {
    runs: Cursor<'a>,
    runs_left: u32,
    kind: Option<Kind>,
    left_in_run: u32,
    t_ms: [ColumnReader<'a>; Kind::ALL.len()],
    location: LocationReader<'a>,
    hpa: ColumnReader<'a>,
    count: ColumnReader<'a>,
    imu: ImuReader<'a>,
    motion: MotionReader<'a>,
    field_ut: [ColumnReader<'a>; 3],
    activity: [ColumnReader<'a>; 2],
    mark_length: ColumnReader<'a>,
    mark_names: Cursor<'a>,
    system: ColumnReader<'a>,
}

#[derive(Debug, Default)]
struct LocationReader<'a> {
    lat: ColumnReader<'a>,
    lng: ColumnReader<'a>,
    accuracy_m: OptionalReader<'a>,
    altitude_m: OptionalReader<'a>,
    speed_mps: OptionalReader<'a>,
    bearing_deg: OptionalReader<'a>,
    mock: OptionalReader<'a>,
    provider: OptionalReader<'a>,
}

#[derive(Debug, Default)]
struct ImuReader<'a> {
    hz: ColumnReader<'a>,
    values: ColumnReader<'a>,
    accel: [ColumnReader<'a>; 3],
    has_gyro: ColumnReader<'a>,
    gyro: [ColumnReader<'a>; 3],
    buffer: Vec<f32>,
    rooms: Option<Box<Rooms>>,
}

#[derive(Debug, Default)]
struct MotionReader<'a> {
    accel_mean: ColumnReader<'a>,
    accel_std: ColumnReader<'a>,
    vertical_mean: OptionalReader<'a>,
    cadence_hz: OptionalReader<'a>,
    yaw_rad: OptionalReader<'a>,
}

#[inline(always)]
fn required(column: &mut ColumnReader<'_>, field: &Field) -> Result<f64, PackedError> {
    column.next(field.name).map(|parts| field.value_of(parts))
}

fn single(column: &mut ColumnReader<'_>, field: &Field) -> Result<f32, PackedError> {
    column.next(field.name).map(|parts| field.single_of(parts))
}

#[inline(always)]
fn optional(column: &mut OptionalReader<'_>, field: &Field) -> Result<Option<f32>, PackedError> {
    Ok(column.next(field.name)?.map(|parts| field.single_of(parts)))
}

#[inline]
fn t_ms(times: &mut ColumnReader<'_>) -> Result<u32, PackedError> {
    u32::try_from(times.next("t")?).map_err(|_| PackedError::Damaged("t"))
}

#[inline]
fn pressure(hpa: &mut ColumnReader<'_>, t_ms: u32) -> Result<Pressure, PackedError> {
    let hpa = single(hpa, &check::HPA)?;
    Ok(Pressure { t_ms, hpa })
}

#[inline]
fn steps(count: &mut ColumnReader<'_>, t_ms: u32) -> Result<Steps, PackedError> {
    let count = count.next("count")?;
    let count = u32::try_from(count).map_err(|_| PackedError::Damaged("count"))?;
    Ok(Steps { t_ms, count })
}

fn at_place<T: Copy>(all: &[T], place: i64, what: &'static str) -> Result<T, PackedError> {
    usize::try_from(place)
        .ok()
        .and_then(|place| all.get(place))
        .copied()
        .ok_or(PackedError::Damaged(what))
}

impl<'a> BatchReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, PackedError> {
        let mut cursor = Cursor::new(bytes);
        let Head { samples, .. } = Head::read(&mut cursor)?;
        let runs_left = cursor.number("runs")?;
        let mut reader = Self {
            runs: cursor,
            runs_left,
            ..Self::default()
        };
        let mut rows = [0_usize; Kind::ALL.len()];
        let mut total: u32 = 0;
        for _ in 0..runs_left {
            let kind = at_place(&Kind::ALL, i64::from(cursor.byte("run")?), "run")?;
            let length = cursor.number("run")?;
            rows[kind as usize] += length as usize;
            total = total
                .checked_add(length)
                .ok_or(PackedError::Damaged("run"))?;
        }
        if total != samples {
            return Err(PackedError::Damaged("samples"));
        }
        for kind in Kind::ALL {
            if rows[kind as usize] > 0 {
                reader.t_ms[kind as usize] = ColumnReader::new(&mut cursor, "t")?;
                reader.open_kind(kind, rows[kind as usize], &mut cursor)?;
            }
        }
        if cursor.is_empty() {
            Ok(reader)
        } else {
            Err(PackedError::Damaged("end"))
        }
    }

    fn open_kind(
        &mut self,
        kind: Kind,
        rows: usize,
        cursor: &mut Cursor<'a>,
    ) -> Result<(), PackedError> {
        match kind {
            Kind::Location => self.location = LocationReader::new(cursor, rows)?,
            Kind::Pressure => self.hpa = ColumnReader::new(cursor, "hPa")?,
            Kind::Steps => self.count = ColumnReader::new(cursor, "count")?,
            Kind::Imu => self.imu = ImuReader::new(cursor)?,
            Kind::Motion => self.motion = MotionReader::new(cursor, rows)?,
            Kind::Magnetic => open_all(&mut self.field_ut, cursor, "magnetic")?,
            Kind::Activity => open_all(&mut self.activity, cursor, "activity")?,
            Kind::Mark => {
                self.mark_length = ColumnReader::new(cursor, "name")?;
                self.mark_names = Cursor::new(cursor.slice("name")?);
            }
            Kind::System => self.system = ColumnReader::new(cursor, "system")?,
        }
        Ok(())
    }

    /// Returns the next sample; `None` at the end.
    pub fn next_sample(&mut self) -> Result<Option<Sample<'_>>, PackedError> {
        let Some(kind) = self.run()? else {
            return Ok(None);
        };
        self.left_in_run -= 1;
        let t_ms = t_ms(&mut self.t_ms[kind as usize])?;
        self.read(kind, t_ms).map(Some)
    }

    /// Passes the remaining samples to `state` in order, like repeated calls of
    /// [`BatchReader::next_sample`]. Fixes have a function of their own. They and the other small
    /// kinds that phones send each second are read in runs: a sample whose kind is known need not
    /// be moved as a [`Sample`].
    ///
    /// # Errors
    ///
    /// Returns an error if the rest is damaged; earlier samples were passed on.
    #[inline]
    pub fn each<S>(
        &mut self,
        state: &mut S,
        take_fix: impl Fn(&mut S, Location),
        take: impl Fn(&mut S, Sample<'_>),
    ) -> Result<(), PackedError> {
        while let Some(kind) = self.run()? {
            let times = &mut self.t_ms[kind as usize];
            match kind {
                Kind::Location => {
                    for _ in 0..std::mem::take(&mut self.left_in_run) {
                        take_fix(state, self.location.read(t_ms(times)?)?);
                    }
                }
                Kind::Pressure => {
                    for _ in 0..std::mem::take(&mut self.left_in_run) {
                        let pressure = pressure(&mut self.hpa, t_ms(times)?)?;
                        take(state, Sample::Pressure(pressure));
                    }
                }
                Kind::Steps => {
                    for _ in 0..std::mem::take(&mut self.left_in_run) {
                        let steps = steps(&mut self.count, t_ms(times)?)?;
                        take(state, Sample::Steps(steps));
                    }
                }
                _ => {
                    self.left_in_run -= 1;
                    let t_ms = t_ms(times)?;
                    take(state, self.read(kind, t_ms)?);
                }
            }
        }
        Ok(())
    }

    /// Returns the kind of the run that contains the next sample; `None` at the end.
    #[inline]
    fn run(&mut self) -> Result<Option<Kind>, PackedError> {
        while self.left_in_run == 0 {
            if self.runs_left == 0 {
                return Ok(None);
            }
            self.runs_left -= 1;
            self.kind = Some(at_place(
                &Kind::ALL,
                i64::from(self.runs.byte("run")?),
                "run",
            )?);
            self.left_in_run = self.runs.number("run")?;
        }
        Ok(self.kind)
    }

    fn read(&mut self, kind: Kind, t_ms: u32) -> Result<Sample<'_>, PackedError> {
        Ok(match kind {
            Kind::Location => Sample::Location(self.location.read(t_ms)?),
            Kind::Pressure => Sample::Pressure(pressure(&mut self.hpa, t_ms)?),
            Kind::Steps => Sample::Steps(steps(&mut self.count, t_ms)?),
            Kind::Imu => Sample::Imu(self.imu.read(t_ms)?),
            Kind::Motion => Sample::Motion(self.motion.read(t_ms)?),
            Kind::Magnetic => {
                let mut field_ut = [0.0_f32; 3];
                for ((value, column), field) in field_ut
                    .iter_mut()
                    .zip(&mut self.field_ut)
                    .zip(&check::FIELD_UT)
                {
                    *value = single(column, field)?;
                }
                Sample::Magnetic(Magnetic { t_ms, field_ut })
            }
            Kind::Activity => {
                let activity_type =
                    at_place(ActivityType::ALL, self.activity[0].next("type")?, "type")?;
                let confidence = single(&mut self.activity[1], &check::CONFIDENCE)?;
                Sample::Activity(Activity {
                    t_ms,
                    activity_type,
                    confidence,
                })
            }
            Kind::Mark => {
                let length = usize::try_from(self.mark_length.next("name")?)
                    .map_err(|_| PackedError::Damaged("name"))?;
                let name = std::str::from_utf8(self.mark_names.take(length, "name")?);
                Sample::Mark(Mark {
                    t_ms,
                    name: name.map_err(|_| PackedError::Damaged("name"))?,
                })
            }
            Kind::System => Sample::System(System {
                t_ms,
                name: at_place(SystemName::ALL, self.system.next("name")?, "name")?,
            }),
        })
    }
}

fn open_all<'a>(
    columns: &mut [ColumnReader<'a>],
    cursor: &mut Cursor<'a>,
    what: &'static str,
) -> Result<(), PackedError> {
    columns.iter_mut().try_for_each(|column| {
        *column = ColumnReader::new(cursor, what)?;
        Ok(())
    })
}

impl<'a> LocationReader<'a> {
    fn new(cursor: &mut Cursor<'a>, rows: usize) -> Result<Self, PackedError> {
        Ok(Self {
            lat: ColumnReader::new(cursor, "lat")?,
            lng: ColumnReader::new(cursor, "lng")?,
            accuracy_m: OptionalReader::new(cursor, rows, "accuracyM")?,
            altitude_m: OptionalReader::new(cursor, rows, "altitudeM")?,
            speed_mps: OptionalReader::new(cursor, rows, "speedMps")?,
            bearing_deg: OptionalReader::new(cursor, rows, "bearingDeg")?,
            mock: OptionalReader::new(cursor, rows, "mock")?,
            provider: OptionalReader::new(cursor, rows, "provider")?,
        })
    }

    #[inline]
    fn read(&mut self, t_ms: u32) -> Result<Location, PackedError> {
        Ok(Location {
            t_ms,
            lat: required(&mut self.lat, &check::LAT)?,
            lng: required(&mut self.lng, &check::LNG)?,
            accuracy_m: optional(&mut self.accuracy_m, &check::ACCURACY_M)?,
            altitude_m: optional(&mut self.altitude_m, &check::ALTITUDE_M)?,
            speed_mps: optional(&mut self.speed_mps, &check::SPEED_MPS)?,
            bearing_deg: optional(&mut self.bearing_deg, &check::BEARING_DEG)?,
            mock: self.mock.next("mock")?.is_some(),
            provider: match self.provider.next("provider")? {
                Some(place) => Some(at_place(Provider::ALL, place, "provider")?),
                None => None,
            },
        })
    }
}

impl<'a> ImuReader<'a> {
    fn new(cursor: &mut Cursor<'a>) -> Result<Self, PackedError> {
        let mut reader = Self {
            hz: ColumnReader::new(cursor, "hz")?,
            values: ColumnReader::new(cursor, "values")?,
            ..Self::default()
        };
        open_all(&mut reader.accel, cursor, "accel")?;
        reader.has_gyro = ColumnReader::new(cursor, "gyro")?;
        open_all(&mut reader.gyro, cursor, "gyro")?;
        Ok(reader)
    }

    fn read(&mut self, t_ms: u32) -> Result<Imu<'_>, PackedError> {
        let hz = single(&mut self.hz, &check::HZ)?;
        let values = usize::try_from(self.values.next("values")?).unwrap_or(usize::MAX);
        if hz <= 0.0 || values == 0 || values > IMU_VALUES_MAX {
            return Err(PackedError::Damaged("values"));
        }
        let has_gyro = self.has_gyro.next("gyro")? != 0;
        let axes = if has_gyro { 6 } else { 3 };
        self.buffer.resize(axes * values, 0.0);
        let rooms = self
            .rooms
            .get_or_insert_with(|| Box::new([[0; AT_ONCE]; 3]));
        let mut axes = self.buffer.chunks_exact_mut(values);
        for (columns, fields) in [
            (&mut self.accel, &check::ACCEL),
            (&mut self.gyro, &check::GYRO),
        ] {
            let (Some(x), Some(y), Some(z)) = (axes.next(), axes.next(), axes.next()) else {
                break;
            };
            // The three axes have the same unit.
            let [field, ..] = fields;
            let value_of = |parts| field.single_of(parts);
            let names = fields.each_ref().map(|field| field.name);
            ColumnReader::fill_three(columns, [x, y, z], value_of, names, rooms)?;
        }
        let axis = |number: usize| &self.buffer[number * values..(number + 1) * values];
        let accel = [axis(0), axis(1), axis(2)];
        Ok(Imu {
            t_ms,
            hz,
            accel,
            gyro: has_gyro.then(|| [axis(3), axis(4), axis(5)]),
        })
    }
}

impl<'a> MotionReader<'a> {
    fn new(cursor: &mut Cursor<'a>, rows: usize) -> Result<Self, PackedError> {
        Ok(Self {
            accel_mean: ColumnReader::new(cursor, "accelMean")?,
            accel_std: ColumnReader::new(cursor, "accelStd")?,
            vertical_mean: OptionalReader::new(cursor, rows, "verticalMean")?,
            cadence_hz: OptionalReader::new(cursor, rows, "cadenceHz")?,
            yaw_rad: OptionalReader::new(cursor, rows, "yawRad")?,
        })
    }

    fn read(&mut self, t_ms: u32) -> Result<Motion, PackedError> {
        Ok(Motion {
            t_ms,
            accel_mean: single(&mut self.accel_mean, &check::ACCEL_MEAN)?,
            accel_std: single(&mut self.accel_std, &check::ACCEL_STD)?,
            vertical_mean: optional(&mut self.vertical_mean, &check::VERTICAL_MEAN)?,
            cadence_hz: optional(&mut self.cadence_hz, &check::CADENCE_HZ)?,
            yaw_rad: optional(&mut self.yaw_rad, &check::YAW_RAD)?,
        })
    }
}
