mod formats;
mod planning;
mod sensor_logger;
